package llm

import (
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// refusal is a kind of request that providers refuse, in words that a person can act on.
type refusal struct {
	signs  []string // what providers write, in lower case; one of them is enough
	reason string
	hint   string
	class  td.FailureClass // empty: bad_request
}

// refusals are those that are known. The first one that fits counts.
var refusals = []refusal{
	{
		signs:  []string{"credit balance is too low", "insufficient credits", "insufficient balance", "insufficient_quota", "billing_hard_limit_reached"},
		reason: "the provider's account has no credit left",
		hint:   "add credit to the account that the key belongs to, then resume the task",
		class:  td.AuthFailed, // waiting pays no bill, and the request is right
	},
	{
		signs:  []string{"reached your specified api usage limits", "reached your specified workspace api usage limits"},
		reason: "the account has used up the limit that its owner set",
		hint:   "raise the limit in the provider's console or wait until it is renewed, then resume the task",
		class:  td.AuthFailed,
	},
	{
		signs:  []string{"organization has been disabled", "account has been deactivated", "account_deactivated", "organization must be verified"},
		reason: "the provider has locked the account or its organization",
		hint:   "sign in to the provider's console, or set another key and start the daemon again",
		class:  td.AuthFailed,
	},
	{
		signs:  []string{"maximum allowed number of output tokens", "max_tokens is too large", "max_completion_tokens is too large", "max_tokens must be less than or equal to"},
		reason: "max_tokens is more than this model can answer with",
		hint:   "lower max_tokens in the config, start the daemon again (taskdaemon daemon stop), then resume the task",
	},
	{
		signs:  []string{"`max_tokens` must be greater than `thinking.budget_tokens`", "max_tokens must be greater than thinking.budget_tokens", "thinking.enabled.budget_tokens", "thinking.budget_tokens"},
		reason: "the budget for thinking does not fit this model or max_tokens",
		hint:   "set thinking in the config to a number from 1024 to below max_tokens, or to 0",
	},
	{
		signs:  []string{"does not support thinking", "thinking is not supported", "does not support reasoning"},
		reason: "this model cannot think before it answers",
		hint:   "set thinking: 0 in the config, or models.<tier> to a model that can",
	},
	{
		signs:  []string{"does not support tools", "tool use is not supported", "does not support function calling", "tools is not supported", "no endpoints found that support tool use"},
		reason: "this model cannot call tools, which every task needs",
		hint:   "set models.<tier> in the config to a model that can",
	},
	{
		signs:  []string{"input_schema", "invalid schema for function", "invalid_function_parameters", "json schema is invalid"},
		reason: "the provider refuses the schema of a tool",
		hint:   "the message names the tool; if an MCP server or a skill brings it, take it out of the config or mend its schema",
	},
	{
		signs:  []string{"tool names must be unique", "custom.name", "function.name", "tools[0].name"},
		reason: "the provider refuses the name of a tool",
		hint:   "the message names the tool; if an MCP server or a skill brings it, rename it or take it out of the config",
	},
	{
		signs:  []string{"invalid model", "model_not_found", "model not found", "unknown model", "not a valid model", "does not exist or you do not have access", "model: claude"},
		reason: "the provider does not know this model",
		hint:   "set models.<tier> in the config to one that it has, or check base_url",
	},
	{
		signs:  []string{"content filtering policy", "content_filter", "content_policy_violation", "content management policy", "safety system"},
		reason: "the provider's content filter blocked the request or the answer",
		hint:   "reword what the task asks for, or go back to before what set the filter off: taskdaemon loop rewind",
	},
	{
		signs:  []string{"could not process image", "image exceeds", "image dimensions exceed", "invalid_image", "unsupported image"},
		reason: "the provider cannot read an image of the conversation",
		hint:   "go back to before it was read (taskdaemon loop rewind), and let the task convert or shrink the image",
	},
	{
		signs:  []string{"temperature:", "'temperature'", "`temperature`", "temperature does not"},
		reason: "this model does not take this temperature",
		hint:   "leave temperature out of the config, or set it to a number that the model takes",
	},
	{
		signs:  []string{"tool_use` ids were found without", "unexpected `tool_use_id`", "tool_call_ids did not have response", "must be a response to a preceding message", "roles must alternate"},
		reason: "the provider finds the conversation out of order: a call without its result",
	},
}

// Explain gives a call that the provider refused a reason that a person can act on, where its words are known. What the provider said stays behind it.
func Explain(e *Error) {
	if e.Class != td.BadRequest || e.Err == nil {
		return
	}
	said := strings.ToLower(e.Err.Error())
	for _, r := range refusals {
		for _, sign := range r.signs {
			if !strings.Contains(said, sign) {
				continue
			}
			e.Err = fmt.Errorf("%s: %w", r.reason, e.Err)
			if r.hint != "" {
				e.Hint = r.hint
			}
			if r.class != "" {
				e.Class = r.class
			}
			return
		}
	}
}
