package crash

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
)

// chain starts two providers that outlive every daemon, one that always fails and one that plays the scenario's script,
// and is the config in which the second stands in for the first.
func (w *crashRun) chain() (config string, err error) {
	script, err := rehearsal.Parse([]byte(strings.ReplaceAll(w.s.script, "COUNTER", w.path("counter"))))
	if err != nil {
		return "", err
	}
	broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, `{"error": {"message": "out of order"}}`, http.StatusInternalServerError)
	}))
	works := llmtest.NewServer(llmtest.Options{Script: script, API: llmtest.Chat})
	w.t.Cleanup(func() { broken.Close(); works.Close() })
	return fmt.Sprintf(`
providers:
  - {name: broken, kind: openai, base_url: "%s/v1"}
  - {name: works, kind: openai, base_url: "%s/v1", key_envs: [CHAIN_KEY]}
models: {small: works/b, worker: broken/a, expert: works/b}
fallback: [{model: broken/a, use: [works/b]}]
`, broken.URL, works.URL), nil
}
