package registry

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// CheckName says why a text cannot be the name of a device: it is empty, too long, not UTF-8, has a
// character that is not printable or that is taken for another one, it reads as ids, or as a list
// or a range where names select devices.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name == "*":
		return errors.New(`"*" means all devices and is the name of none`)
	case ReadsAsIDs(name):
		return fmt.Errorf("the name %q reads as ids of devices, which numbers, ranges and lists "+
			"of them always are; give it a letter, e.g. meter-%s", excerpt.Of(name, 80),
			strings.Trim(excerpt.Of(name, 80), "+-.,=* "))
	}
	return checkListed(name)
}

// CheckQuantityName says why a text cannot be the name of a quantity, by the rules of those of
// devices but that for names which read as numbers.
func CheckQuantityName(name string) error { return checkListed(name) }

// CheckTenantName says why a text cannot be the name of a tenant, by the rules of those of devices.
func CheckTenantName(name string) error {
	if name != "" && ReadsAsIDs(name) {
		return fmt.Errorf("the name %q reads as numbers of tenants, which numbers, ranges and "+
			"lists of them always are; give it a letter, e.g. tenant-%s", excerpt.Of(name, 80),
			strings.Trim(excerpt.Of(name, 80), "+-.,=* "))
	}
	return CheckName(name)
}

// checkListed checks a name that is written in lists, too.
func checkListed(name string) error {
	switch {
	case strings.Contains(name, ","):
		return fmt.Errorf("the name %q has a comma, which separates names in selectors; use "+
			"another character, e.g. %q", excerpt.Of(name, 80),
			strings.ReplaceAll(excerpt.Of(name, 80), ",", "_"))
	case strings.Contains(name, ".."):
		return fmt.Errorf(`the name %q has "..", which is a range in selectors; use one dot`,
			excerpt.Of(name, 80))
	}
	return checkName("name", name)
}

// ParseID returns the id that is written in place of a name, if that is one above 0.
func ParseID(text string) (mid int64, ok bool) {
	mid, err := strconv.ParseInt(text, 10, 64)
	return mid, err == nil && mid > 0 && mid < math.MaxInt64
}

// ReadsAsIDs reports whether a text may be meant as ids where both ids and names select devices: it
// has digits, signs and what joins them to ranges and lists, and no other characters.
func ReadsAsIDs(text string) bool {
	return strings.Trim(text, "0123456789+-.,=* ") == ""
}
