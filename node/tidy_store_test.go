package node_test

// storeRooms are the store and what it is made of: a room of its own knows no other part of the
// store than it names.
func storeRooms() map[string][]string {
	return map[string][]string{
		"node/store": {"sdk/record", "sdk/api", "index", "node/segment", "node/internal/formats",
			"node/internal/journal", "node/internal/clock", "node/internal/health",
			"node/internal/durable", "node/internal/partials", "node/internal/memory",
			"node/internal/slots", "node/internal/cpushare", "node/store/event",
			"node/store/acqtime", "node/store/retention", "node/store/layout",
			"node/store/check", "node/store/manifest",
			"node/store/bounds", "node/store/shards", "node/store/tombstone",
			"node/store/workers",
			"golang.org/x/sys", "github.com/zeebo/xxh3"},
		"node/store/archive": {"sdk/record", "sdk/api", "node/segment", "node/store",
			"node/store/manifest", "node/internal/durable", "node/internal/formats",
			"node/internal/journal"},
		"node/store/check": {"sdk/record", "sdk/api", "index", "node/segment",
			"node/internal/formats", "node/internal/journal", "node/store/layout",
			"node/store/manifest"},
		"node/store/dump": {"sdk/record", "sdk/api", "index", "node/segment",
			"node/store/check", "node/store/layout", "node/store/manifest"},
		"node/store/acqtime": {},
		"node/store/layout": {"sdk/record", "index", "node/segment", "node/internal/slots",
			"node/internal/formats", "node/internal/journal", "golang.org/x/sys"},
		"node/store/retention": {"sdk/record", "node/internal/clock", "node/store/acqtime",
			"node/store/event"},
		"node/store/bounds": {"sdk/record", "index"},
		"node/store/tombstone": {"sdk/record", "node/internal/slots", "node/store/bounds",
			"node/store/event", "node/store/retention"},
		"node/store/shards": {"sdk/record", "index", "node/segment", "node/internal/partials",
			"node/store/bounds", "node/store/event", "node/store/layout", "node/store/manifest",
			"node/store/retention", "node/store/tombstone"},
		"node/store/workers": {},
		"node/store/manifest": {"sdk/record", "index", "node/segment", "node/internal/durable",
			"node/internal/formats", "node/internal/journal", "node/internal/slots",
			"node/store/acqtime", "node/store/event", "node/store/layout",
			"node/store/retention"},
		"node/store/event": {"sdk/record", "node/internal/slots"},
	}
}
