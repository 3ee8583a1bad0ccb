package mem_test

import (
	"testing"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/store/storetest"
	"taskdaemon/internal/td"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB, alive func(td.Holder) bool) (store.Journal, func() store.Journal) {
		s := mem.New(alive)
		return s, func() store.Journal {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = s.Open()
			return s
		}
	})
}
