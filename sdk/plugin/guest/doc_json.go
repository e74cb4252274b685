package guest

import (
	"strconv"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// appendDoc writes a document as encoding/json does. That package would make the module larger by
// half and start slower.
func appendDoc(dst []byte, d *plugin.Doc) []byte {
	dst = appendText(append(dst, '{'), `"name":`, d.Name)
	dst = appendOptional(dst, `,"version":`, d.Version)
	dst = appendOptional(dst, `,"about":`, d.About)
	dst = appendList(dst, `,"payload":`, d.Payload, func(dst []byte, s *string) []byte {
		return appendText(dst, "", *s)
	})
	dst = appendList(dst, `,"params":`, d.Params, appendParam)
	dst = appendList(dst, `,"result":`, d.Result, appendField)
	return append(dst, '}')
}

func appendParam(dst []byte, p *plugin.Param) []byte {
	dst = appendText(append(dst, '{'), `"name":`, p.Name)
	dst = appendText(dst, `,"type":`, p.Type)
	dst = appendList(dst, `,"enum":`, p.Enum, func(dst []byte, s *string) []byte {
		return appendText(dst, "", *s)
	})
	dst = appendSize(dst, `,"size":`, p.Size)
	dst = appendOptional(dst, `,"default":`, p.Default)
	dst = appendOptional(dst, `,"min":`, p.Min)
	dst = appendOptional(dst, `,"max":`, p.Max)
	dst = appendOptional(dst, `,"unit":`, p.Unit)
	dst = appendOptional(dst, `,"help":`, p.Help)
	return append(dst, '}')
}

func appendField(dst []byte, f *plugin.Field) []byte {
	dst = appendText(append(dst, '{'), `"name":`, f.Name)
	dst = appendText(dst, `,"type":`, f.Type)
	dst = appendOptional(dst, `,"unit":`, f.Unit)
	if f.Repeat {
		dst = append(dst, `,"repeat":true`...)
	}
	return append(dst, '}')
}

func appendList[T any](dst []byte, key string, list []T,
	appendOne func([]byte, *T) []byte) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(append(dst, key...), '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOne(dst, &list[i])
	}
	return append(dst, ']')
}

func appendSize(dst []byte, key string, n int) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), int64(n), 10)
}

func appendOptional(dst []byte, key, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, key, s)
}

// appendText writes a key and a string, escaping what encoding/json escapes.
func appendText(dst []byte, key, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(append(dst, key...), '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			dst = append(dst, '\\', "btn?fr"[c-'\b'])
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x2028 || c == 0x2029:
			dst = append(dst, '\\', 'u', digits[c>>12], digits[c>>8&15], digits[c>>4&15],
				digits[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
