package llm

import (
	"errors"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// What providers refuse is said in words that a person can act on, and what they said stays behind it.
func TestExplain(t *testing.T) {
	for said, want := range map[string]struct {
		reason, hint string
		class        td.FailureClass
	}{
		"invalid_request_error: Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.": {"no credit left", "add credit", td.AuthFailed},
		"invalid_request_error: You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.":                     {"limit that its owner set", "raise the limit", td.AuthFailed},
		"invalid_request_error: This organization has been disabled.":                                                                                     {"locked the account", "console", td.AuthFailed},
		"invalid_request_error: max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022":            {"max_tokens is more", "lower max_tokens", ""},
		"invalid_request_error: max_tokens is too large: 100000. This model supports at most 16384 completion tokens":                                     {"max_tokens is more", "lower max_tokens", ""},
		"invalid_request_error: `max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation":                             {"budget for thinking", "thinking", ""},
		"invalid_request_error: tools.14.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12":                            {"schema of a tool", "MCP server", ""},
		"invalid_request_error: Invalid schema for function 'find': In context=(), 'required' is required to be supplied":                                 {"schema of a tool", "MCP server", ""},
		"invalid_request_error: tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'":                                                {"name of a tool", "MCP server", ""},
		"not_found_error: model: claude-none": {"does not know this model", "models.<tier>", ""},
		"invalid_request_error: The model `gpt-none` does not exist or you do not have access to it.":                                            {"does not know this model", "models.<tier>", ""},
		"invalid_request_error: Output blocked by content filtering policy":                                                                      {"content filter", "reword", ""},
		"invalid_request_error: messages.3.content.0.image.source.base64: image exceeds 5 MB maximum: 7000000 bytes > 5242880 bytes":             {"image", "loop rewind", ""},
		"invalid_request_error: messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1":                   {"out of order", "", ""},
		"invalid_request_error: Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.": {"temperature", "leave temperature out", ""},
		"registry.ollama.ai/library/x does not support tools":                                                                                    {"cannot call tools", "models.<tier>", ""},
		"invalid_request_error: something that nobody has seen before":                                                                           {"", "", ""},
	} {
		e := &Error{Class: td.BadRequest, Status: 400, Err: errors.New(said)}
		Explain(e)
		class := want.class
		if class == "" {
			class = td.BadRequest
		}
		got := strings.TrimSuffix(e.Err.Error(), said)
		if !strings.HasSuffix(e.Err.Error(), said) || !strings.Contains(got, want.reason) || (got == "") != (want.reason == "") ||
			!strings.Contains(e.Hint, want.hint) || (e.Hint == "") != (want.hint == "") || e.Class != class || len(got) > 100 {
			t.Errorf("%s: %s (%s); hint %q", said, e.Err, e.Class, e.Hint)
		}
	}
	other := &Error{Class: td.Network, Err: errors.New("insufficient credits, or so")}
	if Explain(other); other.Hint != "" || other.Class != td.Network {
		t.Errorf("trouble on the way is no refusal: %+v", other)
	}
}
