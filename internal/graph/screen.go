package graph

import (
	"encoding/json"

	"taskdaemon/internal/store/clean"
)

// screen takes secrets out of the value of a field. A validator is run as it was given, so it is refused instead.
func (s *Store) screen(field string, raw json.RawMessage) (json.RawMessage, error) {
	if field == fieldValidator {
		if _, refused := s.secrets.Request(raw, clean.Treat); refused != "" {
			return nil, clean.Refused(field)
		}
		return raw, nil
	}
	return s.secrets.JSON(raw), nil
}

// screenSets refuses members of sets that are secrets: a label is chosen by its name.
func (s *Store) screenSets(sets map[string][]string) error {
	for set, members := range sets {
		for _, m := range members {
			if s.secrets.Secret([]byte(m)) {
				return clean.Refused(set)
			}
		}
	}
	return nil
}
