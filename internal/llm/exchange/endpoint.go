package exchange

import (
	"io"
	"net/http"
	"net/url"
)

// Endpoint is where a client's requests go, and what goes with each of them.
type Endpoint struct {
	url    string
	header http.Header
	client *http.Client
}

// NewEndpoint describes the endpoint at path below base, which may have a path and a query of its own. The header tells who is asking.
// A nil client is one of its own, as NewClient makes it. A base that is no URL is found out by the first call.
func NewEndpoint(client *http.Client, base, path string, header http.Header) Endpoint {
	if client == nil {
		client = NewClient()
	}
	if u, err := url.Parse(base); err == nil {
		base = u.JoinPath(path).String()
	}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "taskdaemon")
	return Endpoint{url: base, header: header, client: client}
}

// Send makes one request, once, and puts the watch on what comes back.
func (e Endpoint) Send(w *Watch, body Body) (*http.Response, error) {
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, e.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header = e.header.Clone()
	body.Give(req)
	res, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	w.Over(res)
	return res, nil
}

// Said reads what a server says instead of an answer, as far as it is worth reading. Half of it still says something.
func Said(res *http.Response) []byte {
	said, _ := io.ReadAll(io.LimitReader(res.Body, MaxErrorBody))
	return said
}
