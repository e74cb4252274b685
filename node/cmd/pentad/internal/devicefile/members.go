package devicefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/registry"
)

// named makes the change of the members of an object: null removes what was known; what
// is not a member stays. Members that have no other meaning are attributes.
func (im *Importer) named(members map[string]any) (c client.DeviceChange, err error) {
	texts := map[string]**string{"type": &c.Type, "group": &c.Group, "metadata": &c.Metadata}
	var place [3]string
	from := ""
	c.Attributes = map[string]registry.Value{}
	for key, v := range members {
		switch key {
		case "name":
			c.Name, err = textOf(key, v)
		case "type", "group", "metadata":
			var text string
			text, err = textOf(key, v)
			*texts[key] = &text
		case "retired":
			c.Retired, err = retiredOf(v)
		case "from":
			from, err = textOf(key, v)
		case "lat", "latitude":
			place[0], err = textOf(key, v)
		case "lon", "longitude":
			place[1], err = textOf(key, v)
		case "alt", "altitude":
			place[2], err = textOf(key, v)
		case "cid", "mid": // names say which device it is
		case "attributes":
			err = addAttributes(&c, v)
		default:
			err = addAttribute(&c, registry.AttributeOf(key), v)
		}
		if err != nil {
			return c, err
		}
	}
	if c.Name == "" {
		return c, errors.New("name: the name is empty")
	}
	if c.FromNs, err = im.times.read(from); err != nil {
		return c, err
	}
	_, lat := members["lat"]
	_, latitude := members["latitude"]
	if lat || latitude || place[1] != "" {
		if c.Place, err = ParsePlace(place[:]); err != nil {
			return c, err
		}
		c.NoPlace = c.Place == nil
	}
	return c, check(&c)
}

// textOf is a text, a number as it is written, or JSON as text: metadata may be any of them.
func textOf(key string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return strings.TrimSpace(v), nil
	case json.Number:
		return v.String(), nil
	}
	if key != "metadata" {
		return "", fmt.Errorf("%s: %s is not a text", key, excerpt.Of(fmt.Sprint(v), 60))
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func retiredOf(v any) (*bool, error) {
	switch v := v.(type) {
	case nil:
		return parseRetired("")
	case bool:
		return &v, nil
	}
	return parseRetired(fmt.Sprint(v))
}

func addAttributes(c *client.DeviceChange, v any) error {
	attributes, ok := v.(map[string]any)
	if !ok {
		return errors.New("attributes is not an object")
	}
	for key, v := range attributes {
		if err := addAttribute(c, key, v); err != nil {
			return err
		}
	}
	return nil
}

func addAttribute(c *client.DeviceChange, key string, v any) error {
	switch v := v.(type) {
	case nil:
		c.Attributes[key] = registry.Value{}
	case string:
		c.Attributes[key] = registry.Text(v)
	case bool:
		c.Attributes[key] = registry.Bool(v)
	case json.Number:
		n, err := registry.ParseNumber(key, v.String())
		if err != nil {
			return err
		}
		c.Attributes[key] = n
	default:
		return fmt.Errorf("%q is a list or an object; attributes are texts, numbers and booleans",
			excerpt.Of(key, 60))
	}
	return nil
}
