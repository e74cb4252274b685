package release

import (
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	f := func(module string, settings []debug.BuildSetting, version, commit string) {
		t.Helper()
		b := buildOf(&debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings})
		if b.Version != version || b.Commit != commit || b.Go == "" || b.Platform == "" {
			t.Errorf("%s %v: %+v, want version %s, commit %q", module, settings, b, version, commit)
		}
	}
	git := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"},
		{Key: "vcs.modified", Value: "false"}}
	f("", nil, Number, "")
	f("(devel)", git, Number, "0123abcd")
	f("(devel)", append(git, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), Number,
		"0123abcd-modified")
	f("v0.0.0-20261128074000-0123456789ab", nil, Number, "0123456789ab")
	f("v0.0.0-20261128074000-0123456789ab+dirty", git, Number, "0123abcd")
	f("v1.2.3", nil, "1.2.3", "")
	if b := buildOf(nil); b.Version != Number {
		t.Errorf("no information: %+v", b)
	}
}
