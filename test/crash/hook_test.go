package crash

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// hookServer is the address of a hook that adds words. It lives as long as the tests.
var hookServer = sync.OnceValue(func() string {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, `{"inject": "seen on the web"}`)
	})).URL
})
