package cluster

import (
	"slices"
	"strings"
	"testing"
)

func testConfig() Config {
	return Config{TokenFile: "token", HTTPListen: "10.0.0.7:5150", Bind: "10.0.0.7:5152",
		RaftBind: "10.0.0.7:5151"}
}

func TestConfigIsCompleted(t *testing.T) {
	c, err := testConfig().Complete()
	if err != nil || c.Groups != DefaultGroups || c.Replicas != 3 || c.Role != "core" ||
		c.Weight != 100 {
		t.Fatalf("%+v, %v", c, err)
	}
	c = testConfig()
	c.Join = []string{"db-1", "10.0.0.1:99", "::1", "[::1]:7"}
	c.Bind, c.RaftBind, c.HTTPListen = "0.0.0.0:5152", ":5151", "[::]:5150"
	c.Advertise, c.Zone, c.Role = "db-7.example", "eu/rack-3", "edge"
	c.Features = Features{First: 1, Last: 2}
	if c, err = c.Complete(); err != nil {
		t.Fatal(err)
	}
	want := []string{"db-1:5152", "10.0.0.1:99", "[::1]:5152", "[::1]:7"}
	if !slices.Equal(c.Join, want) {
		t.Errorf("joins %v, want %v", c.Join, want)
	}
	n, err := c.Node(Self{ID: 3, Incarnation: 4})
	if err != nil {
		t.Fatal(err)
	}
	if n != (Node{ID: 3, Incarnation: 4, Role: RoleEdge, State: NodeJoining, Zone: "eu/rack-3",
		RaftAddr: "db-7.example:5151", HTTPAddr: "db-7.example:5150", MinFeature: 1, MaxFeature: 2,
		Weight: 100}) {
		t.Errorf("%+v", n)
	}
	o, err := c.Gossip(testToken(), n)
	if err != nil || o.Bind != "0.0.0.0:5152" || o.Advertise != "db-7.example:5152" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	f := func(want string, change func(c *Config)) {
		t.Helper()
		c := testConfig()
		change(&c)
		if _, err := c.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("token file missing", func(c *Config) { c.TokenFile = "" })
	f("a power of two", func(c *Config) { c.Init, c.Groups = true, 12 })
	f("at most 4096", func(c *Config) { c.Init, c.Groups = true, 8192 })
	f("at most 4096", func(c *Config) { c.Init, c.Groups = true, -1 })
	f("1, 3, 5 or 7", func(c *Config) { c.Init, c.Replicas = true, 2 })
	f("core or edge", func(c *Config) { c.Role = "voter" })
	f("say which nodes to join", func(c *Config) { c.Role = "edge" })
	f("leave them out where a node joins", func(c *Config) {
		c.Join, c.Groups = []string{"a"}, 16
	})
	f("leave out one", func(c *Config) { c.Init, c.Join = true, []string{"a"} })
	f("zone", func(c *Config) { c.Zone = "a zone" })
	f("weight -1", func(c *Config) { c.Weight = -1 })
	f("a host without a port", func(c *Config) { c.Advertise = "host:1" })
	f("say with advertise", func(c *Config) { c.Bind = ":5152" })
	f("say with advertise", func(c *Config) { c.RaftBind = "0.0.0.0:5151" })
	f("http: address", func(c *Config) { c.HTTPListen = "host" })
	f("such as 10.0.0.1", func(c *Config) { c.Join = []string{"a:b"} })
	f("such as 10.0.0.1", func(c *Config) { c.Join = []string{"a:1:2"} })
	f("such as 10.0.0.1", func(c *Config) { c.Join = []string{""} })
	f("a few are enough", func(c *Config) { c.Join = make([]string, 65) })
}
