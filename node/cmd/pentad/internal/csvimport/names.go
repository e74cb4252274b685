package csvimport

// nameSeparator is between the texts of several columns that make one name: 06/037/1103.
const nameSeparator = '/'

// nameSource makes a text of one column or of several.
type nameSource struct {
	sources    []source
	references []string
	joined     []byte // reused
}

func newNameSource(
	references []string, h *header, fieldCount int, fileName string,
) (nameSource, error) {
	n := nameSource{references: references}
	for _, reference := range references {
		s, err := newSource(reference, h, fieldCount, fileName)
		if err != nil {
			return n, err
		}
		n.sources = append(n.sources, s)
	}
	return n, nil
}

// text returns the text of one column as it is, and those of several joined, as [AppendNamePart]
// says. It is valid until the next call. Missing is the first of several columns without a text.
func (n *nameSource) text(fields [][]byte, label string) (text []byte, missing string) {
	if len(n.sources) == 1 {
		return n.sources[0].text(fields, label), ""
	}
	n.joined = n.joined[:0]
	for i := range n.sources {
		part := n.sources[i].text(fields, label)
		if len(part) == 0 {
			return nil, n.references[i]
		}
		if i > 0 {
			n.joined = append(n.joined, nameSeparator)
		}
		n.joined = AppendNamePart(n.joined, part)
	}
	return n.joined, ""
}

// labelled reports whether the text depends on the value's column.
func (n *nameSource) labelled() bool {
	for i := range n.sources {
		if n.sources[i].label {
			return true
		}
	}
	return false
}

// AppendNamePart appends the text of one of several columns that make a name. A slash in it becomes
// \/ and a backslash \\, so that no two rows whose texts differ have one name.
func AppendNamePart[T ~string | ~[]byte](dst []byte, text T) []byte {
	for i := range len(text) {
		if text[i] == nameSeparator || text[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return dst
}
