package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func postChat(t testing.TB, s *Server, path, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func TestChatServerRefusesWhatTheAPIWould(t *testing.T) {
	s := NewServer(Options{API: Chat, Script: parse(t, "turns: [{text: a, repeat: forever}]")})
	defer s.Close()
	const (
		head   = `"model":"m","stream":true,"stream_options":{"include_usage":true}`
		user   = `{"role":"user","content":"a"}`
		call   = `{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"A","arguments":"{}"}},{"id":"u","type":"function","function":{"name":"A","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"t","content":"r"}`
		other  = `{"role":"tool","tool_call_id":"u","content":"r"}`
	)
	request := func(messages ...string) string {
		return `{` + head + `,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	for _, c := range []struct{ name, body, want string }{
		{"good", request(`{"role":"system","content":"s"}`, user), ""},
		{"good tools", request(user, call, result, other, user), ""},
		{"good tools in disorder", request(user, call, other, result), ""},
		{"not JSON", "{", "unexpected EOF"},
		{"unknown field", `{"modle":"m"}`, "unknown field"},
		{"no model", `{"stream":true}`, "provide a model"},
		{"no stream", `{"model":"m"}`, "only streams"},
		{"no usage", `{"model":"m","stream":true}`, "only streams"},
		{"two limits", `{` + head + `,"max_tokens":1,"max_completion_tokens":1}`, "at the same time"},
		{"no room", `{` + head + `,"max_tokens":0}`, "below minimum"},
		{"no messages", request(), "there must be some"},
		{"schema without properties", `{` + head + `,"tools":[{"type":"function","function":{"name":"A","parameters":{"type":"object"}}}]}`, "missing properties"},
		{"tool of another type", `{` + head + `,"tools":[{"function":{"name":"A","parameters":{"properties":{}}}}]}`, "a tool is a function"},
		{"system later", request(user, `{"role":"system","content":"s"}`), "speaks first"},
		{"unknown role", request(`{"role":"nobody","content":"s"}`), "is not one"},
		{"blank content", request(`{"role":"user","content":" "}`), "content"},
		{"no content", request(`{"role":"user"}`), "content"},
		{"calls of a user", request(strings.Replace(call, "assistant", "user", 1)), "not allowed"},
		{"call without id", request(user, strings.Replace(call, `"id":"t"`, `"id":""`, 1)), "must be unique"},
		{"arguments are no object", request(user, strings.Replace(call, `"{}"`, `"[]"`, 1)), "object in a string"},
		{"no result", request(user, call, result, user), "did not have response"},
		{"no result at the end", request(user, call, result), "results for all"},
		{"result of nothing", request(user, result), "no call"},
		{"result twice", request(user, call, result, result), "no call"},
	} {
		status, body := postChat(t, s, "/v1/chat/completions", "k", c.body)
		if c.want == "" && (status != http.StatusOK || !strings.HasSuffix(body, "data: [DONE]\n\n")) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if c.want != "" && (status != http.StatusBadRequest || !strings.Contains(body, c.want)) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

func TestChatServerFails(t *testing.T) {
	s := NewServer(Options{API: Chat, Script: parse(t, "turns: [{text: a, faults: [{status: 529}]}]")})
	defer s.Close()
	good := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a"}]}`
	for _, c := range []struct {
		path, key  string
		want       int
		code, says string
	}{
		{"/v1/messages", "k", http.StatusNotFound, "model_not_found", "no such path"},
		{"/v1/chat/completions", "", http.StatusUnauthorized, "invalid_api_key", "API key"},
		{"/v1/chat/completions", "k", http.StatusServiceUnavailable, "", "overloaded"},
	} {
		status, body := postChat(t, s, c.path, c.key, good)
		var e struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || status != c.want || e.Error.Code != c.code || !strings.Contains(e.Error.Message, c.says) || e.Error.Type == "" {
			t.Errorf("%s: %d %s %v", c.path, status, body, err)
		}
	}
}
