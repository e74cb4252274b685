package seal

import (
	"fmt"
	"unicode/utf8"
)

// Check says why a reading cannot be sealed by the schema, without sealing it.
func (s *Schema) Check(r *Reading) error {
	if err := s.checkValues(r.CapNs, r.Values); err != nil {
		return err
	}
	for i, v := range r.Values {
		if s.def.Fields[i].Kind == Text && !utf8.ValidString(v.Text) {
			return fmt.Errorf("field %q: the text is not UTF-8", s.def.Fields[i].Name)
		}
	}
	switch {
	case len(r.Opaque) > 0 && !s.def.Envelope:
		return fmt.Errorf("schema %d has no envelope for %d opaque bytes", s.ID(),
			len(r.Opaque))
	case r.Before == nil:
		return nil
	case !s.def.Envelope:
		return fmt.Errorf("schema %d has no envelope, which a correction by difference needs",
			s.ID())
	}
	if err := s.checkValues(r.CapNs, r.Before); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	return nil
}
