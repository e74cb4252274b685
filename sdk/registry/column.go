package registry

import "strings"

// attributePrefix is before the key of an attribute in a column that would mean something else.
const attributePrefix = "attr."

// AttributeOf returns the key of the attribute that a column of a file of devices has.
func AttributeOf(column string) string { return strings.TrimPrefix(column, attributePrefix) }

// ColumnOf returns the column of an attribute: its key, with a prefix where that is the name of
// another column.
func ColumnOf(key string) string {
	switch key {
	case "metadata", "from", "latitude", "longitude", "altitude":
		return attributePrefix + key
	}
	if strings.HasPrefix(key, attributePrefix) {
		return attributePrefix + key
	}
	return key
}
