package sqlite_test

import (
	"testing"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/store/storetest"
	"taskdaemon/internal/td"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB, alive func(td.Holder) bool) (store.Journal, func() store.Journal) {
		o := sqlite.Options{Dir: t.TempDir(), Alive: alive}
		open := func() *sqlite.Store {
			s, err := sqlite.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil && !td.IsKind(err, td.Unavailable) {
					t.Error(err)
				}
			})
			return s
		}
		s := open()
		return s, func() store.Journal {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
			return s
		}
	})
}
