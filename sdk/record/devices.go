package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// MaxDeviceNameBytes bounds the name of a device.
const MaxDeviceNameBytes = 256

// CheckDeviceName says why a text cannot be the name of a device: it is empty, too long, not UTF-8,
// "*", which selectors read as all devices, or has a character that is not printable.
func CheckDeviceName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name == "*":
		return errors.New(`"*" means all devices and is the name of none`)
	case len(name) > MaxDeviceNameBytes:
		return fmt.Errorf("the name %q has %d bytes, at most %d", excerpt.Of(name, 40), len(name),
			MaxDeviceNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8", excerpt.Of(name, 80))
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the name %q has a character that is not printable",
			excerpt.Of(name, 80))
	}
	return nil
}
