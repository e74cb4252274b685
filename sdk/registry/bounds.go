package registry

import (
	"fmt"
	"math"
	"strconv"
)

// boundsMargin is by how many degrees bounds are wider than a place, as fields may be rounded.
const boundsMargin = 1e-4

// PlaceBounds returns a condition in the language of package where, on fields of degrees by their
// names, that the locations meet which a condition about places has, and some near it. It is not ok
// of others, e.g. of an altitude.
func PlaceBounds(x Expr, lat, lon string) (text string, ok bool) {
	var south, west, north, east float64
	switch x := x.(type) {
	case Within:
		south, west, north, east = x.South, x.West, x.North, x.East
	case Near:
		const degree = math.Pi / 180
		angle := x.Meters / EarthRadiusMeters
		south, north = x.Lat-angle/degree, x.Lat+angle/degree
		width := math.Asin(min(1, math.Sin(min(angle, math.Pi/2))/math.Cos(x.Lat*degree))) / degree
		west, east = x.Lon-width, x.Lon+width
	default:
		return "", false
	}
	south, west, north, east = south-boundsMargin, west-boundsMargin, north+boundsMargin,
		east+boundsMargin
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }
	text = fmt.Sprintf("%s >= %s and %s <= %s", lat, number(south), lat, number(north))
	switch {
	case south <= -90 || north >= 90 || west <= -180 || east >= 180: // all longitudes may be in it
	case west <= east:
		text += fmt.Sprintf(" and %s >= %s and %s <= %s", lon, number(west), lon, number(east))
	default:
		text += fmt.Sprintf(" and (%s >= %s or %s <= %s)", lon, number(west), lon, number(east))
	}
	return text, true
}
