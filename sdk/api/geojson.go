package api

// Features is a page of devices by name, as a FeatureCollection of GeoJSON (RFC 7946).
type Features struct {
	Type     string    `json:"type"` // FeatureCollection
	Features []Feature `json:"features"`
	Next     string    `json:"next,omitempty"` // where the next page begins; absent: there is none
}

// Feature is a device with the description that holds.
type Feature struct {
	Type     string `json:"type"`     // Feature
	ID       int64  `json:"id"`       // mid
	Geometry *Point `json:"geometry"` // null of a device without a place
	// Properties are name, type, group, metadata, from and retired, those that there are, and the
	// attributes. The key of an attribute that is one of these words has the prefix "attr.".
	Properties map[string]any `json:"properties"`
}

// Point is a place on the earth: longitude and latitude in degrees, and altitude in metres if it is
// known.
type Point struct {
	Type        string    `json:"type"` // Point
	Coordinates []float64 `json:"coordinates"`
}
