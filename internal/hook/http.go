package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"taskdaemon/internal/failpoint"
)

// maxRedirects is how often a server may send a hook on to another of its own addresses.
const maxRedirects = 3

var (
	fpBeforePost = failpoint.New("hook.http.before_post")
	fpAfterPost  = failpoint.New("hook.http.after_post")
)

// client has no time limit of its own: each call brings its hook's.
var client = &http.Client{
	Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	},
	CheckRedirect: func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case len(via) > maxRedirects:
			return errors.New("it sends on too often")
		case req.URL.Scheme != first.Scheme || req.URL.Host != first.Host:
			return fmt.Errorf("it sends on to another host, %s", req.URL.Host)
		case req.Method != http.MethodPost:
			return errors.New("it sends on without the payload; only 307 and 308 keep it")
		}
		return nil
	},
}

// HTTP posts the payload to the hook's address and reads the decision from the answer: nothing, or one
// JSON object. Its effect is keyed: the header Idempotency-Key carries key, which is the step's, and a
// call cut off by a crash is made again with the same, so a server may be asked more than once. The
// error is ctx's cause, when the caller ended it: then nothing was decided. screened, unless nil, takes secrets out of the answer before that is cut.
func HTTP(ctx context.Context, s Spec, p Payload, key string, screened func([]byte) []byte) (Result, error) {
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	r, err := post(within, s, p, key, screened)
	if err == nil {
		r, err = settle(s, p, r)
	}
	if err != nil {
		return failedWithin(ctx, within, s, err)
	}
	return r, nil
}

func post(ctx context.Context, s Spec, p Payload, key string, screened func([]byte) []byte) (Result, error) {
	body, err := Encode(p)
	if err != nil {
		return Result{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return Result{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "taskdaemon")
	req.Header.Set("Idempotency-Key", key)
	fpBeforePost.Hit()
	res, err := client.Do(req)
	if err != nil {
		return Result{}, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, MaxOutput+1))
	if err != nil {
		return Result{}, fmt.Errorf("read its answer: %w", err)
	}
	fpAfterPost.Hit()
	if screened != nil {
		said = screened(said)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return Result{}, fmt.Errorf("it answered %s: %s", res.Status, clip(string(said), 500))
	}
	return parse(p, said, false)
}
