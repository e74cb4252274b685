package plugins

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

const topDoc = `{"name":"top","params":[{"name":"k","type":"u64","min":"1","max":"9","default":"3"},
{"name":"share","type":"f64","unit":"%"},{"name":"low","type":"i64","min":"0","unit":"kW"}],
"result":[{"name":"label","type":"text"},{"name":"since","type":"time"},
{"name":"full","type":"bool"},
{"name":"value","type":"f64","unit":"kW","repeat":true},{"name":"count","type":"u64","repeat":true}]}`

func TestParamsOfPlugins(t *testing.T) {
	row := pluginRow(client.PluginInfo{Doc: json.RawMessage(topDoc)})
	var b bytes.Buffer
	w := output.NewWriter(&b, output.Options{Format: output.CSV}, pluginColumns()...)
	if err := w.Row(row...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"k=3[1..9],share=F64[%],low=I64[0.. kW]",
		"label,since,full,value...,count..."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s has no %q", b.String(), want)
		}
	}
}
