package openai

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
)

const testKey = "sk-proj-test-0123456789abcdef"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve gives a model that talks to a server that plays the script.
func serve(t testing.TB, o llmtest.Options) (*Model, *llmtest.Server) {
	t.Helper()
	o.API = llmtest.Chat
	s := llmtest.NewServer(o)
	client := exchange.NewClient()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.Close()
	})
	return New(Options{APIKey: testKey, KeyEnv: "MY_KEY", BaseURL: s.URL + "/v1", HTTP: client, IdleTimeout: time.Minute, HeaderTimeout: time.Minute}), s
}

func TestConformance(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script *rehearsal.Script) llm.Model {
		m, _ := serve(t, llmtest.Options{Script: script})
		return m
	}, llmtest.TextHasNoEnd)
}
