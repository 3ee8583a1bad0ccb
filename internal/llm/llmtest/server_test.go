package llmtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm/rehearsal"
)

func parse(t testing.TB, script string) *rehearsal.Script {
	t.Helper()
	s, err := rehearsal.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func post(t testing.TB, s *Server, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "k")
	req.Header.Set("Anthropic-Version", "2023-06-01")
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

func TestServerRefusesWhatTheAPIWould(t *testing.T) {
	s := NewServer(Options{Script: parse(t, "turns: [{text: a, repeat: forever}]")})
	defer s.Close()
	request := func(messages string) string {
		return `{"model":"m","max_tokens":10,"stream":true,"messages":[` + messages + `]}`
	}
	const (
		user   = `{"role":"user","content":[{"type":"text","text":"a"}]}`
		call   = `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"A","input":{}}]}`
		said   = `{"role":"assistant","content":[{"type":"text","text":"b"}]}`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}`
	)
	const thinking = `{"model":"m","max_tokens":2000,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[MESSAGES]}`
	const tool = `{"name":"A","input_schema":{"type":"object"}}`
	mark := `{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}`
	for _, c := range []struct{ name, body, want string }{
		{"good", request(user), ""},
		{"good tools", request(user + "," + call + "," + result), ""},
		{"not JSON", "{", "unexpected EOF"},
		{"unknown field", `{"modle":"m"}`, "unknown field"},
		{"no model", `{"max_tokens":1,"stream":true}`, "model: field required"},
		{"no max_tokens", `{"model":"m","stream":true}`, "max_tokens"},
		{"no stream", `{"model":"m","max_tokens":1}`, "stream"},
		{"no messages", request(""), "at least one message"},
		{"assistant first", request(call), "not allowed here"},
		{"empty content", request(`{"role":"user","content":[]}`), "must not be empty"},
		{"blank text", request(`{"role":"user","content":[{"type":"text","text":" "}]}`), "non-whitespace"},
		{"unsealed thinking", request(user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}`), "signature"},
		{"input is no object", request(user + "," + strings.Replace(call, `{}`, `[]`, 1)), "valid dictionary"},
		{"no result", request(user + "," + call + "," + user), "without a tool_result"},
		{"result of nothing", request(user + "," + said + "," + result), "unexpected tool_use_id"},
		{"text before the result", request(user + "," + call + "," + strings.Replace(result, `[`, `[{"type":"text","text":"x"},`, 1)), "must come first"},
		{"five breakpoints", request(strings.Repeat(mark+","+said+",", 4) + mark), "maximum of 4"},
		{"no turns", request(user + "," + user), "not allowed here"},
		{"no result at the end", request(user + "," + call), "without a tool_result"},
		{"one id twice", request(user + "," + call + "," + result + "," + call + "," + result), "must be unique"},
		{"an id of another provider", request(user + "," + strings.Replace(call, `"t"`, `"functions.A:0"`, 1)), "must be unique, and match"},
		{"a name with a dot", request(user + "," + strings.Replace(call, `"A"`, `"functions.A"`, 1)), "like names"},
		{"an error without a word", request(user + "," + call + "," + strings.Replace(result, `"content":"r"`, `"is_error":true`, 1)), "cannot be empty"},
		{"thinking in the midst of a turn", strings.Replace(thinking, "MESSAGES", user+","+call+","+result, 1), "must start with a thinking block"},
		{"thinking from the next turn on", strings.Replace(thinking, "MESSAGES", user+","+call+","+result+","+said+","+user, 1), ""},
		{"an answer that goes on after a blank", request(user + "," + strings.Replace(said, `"b"`, `"b "`, 1)), "trailing whitespace"},
		{"a marked thought", request(user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s","cache_control":{"type":"ephemeral"}}]}`), "nor a mark"},
		{"adaptive with a budget", strings.Replace(strings.Replace(thinking, "enabled", "adaptive", 1), "MESSAGES", user, 1), "thinking.type"},
		{"tools of one name", `{"model":"m","max_tokens":1,"stream":true,"tools":[` + tool + `,` + tool + `],"messages":[` + user + `]}`, "must be unique"},
		{"budget over max", `{"model":"m","max_tokens":2000,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + user + `]}`, "budget_tokens"},
		{"schema is no object", `{"model":"m","max_tokens":1,"stream":true,"tools":[{"name":"A","input_schema":1}],"messages":[` + user + `]}`, "input_schema"},
	} {
		status, body := post(t, s, c.body)
		if c.want == "" && (status != http.StatusOK || !strings.HasSuffix(body, "data: {\"type\":\"message_stop\"}\n\n")) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if c.want != "" && (status != http.StatusBadRequest || !strings.Contains(body, c.want)) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

func TestServerHoldsStreams(t *testing.T) {
	hold := make(chan struct{})
	s := NewServer(Options{Script: parse(t, "turns: [{text: a}]"), Fast: true, Hold: hold, Record: true})
	defer s.Close()
	done := make(chan string)
	go func() {
		_, body := post(t, s, `whatever`)
		done <- body
	}()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(5 * time.Second); s.Held() != 1; <-poll.C {
		if time.Now().After(deadline) {
			t.Fatal("no stream is held")
		}
	}
	if ex := s.Exchanges(); len(ex) != 1 || !ex[0].Answered.IsZero() || !bytes.Equal(ex[0].Body, []byte("whatever")) {
		t.Errorf("exchanges = %+v", ex)
	}
	close(hold)
	if body := <-done; !strings.Contains(body, "message_stop") {
		t.Errorf("body = %s", body)
	}
	if s.Held() != 0 {
		t.Errorf("%d held", s.Held())
	}
}

func TestServerWantsAKey(t *testing.T) {
	s := NewServer(Options{Script: parse(t, "turns: [{text: a}]")})
	defer s.Close()
	for path, want := range map[string]int{"/v1/messages": http.StatusUnauthorized, "/v1/other": http.StatusNotFound} {
		res, err := http.Post(s.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Error struct{ Type string } }
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil || res.StatusCode != want || e.Error.Type == "" {
			t.Errorf("%s: %d %+v %v", path, res.StatusCode, e, err)
		}
		_ = res.Body.Close()
	}
}
