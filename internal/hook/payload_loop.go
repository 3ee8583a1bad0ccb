package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// ToolCall is a model's call of a tool.
type ToolCall struct {
	ToolName  string          `json:"tool_name" doc:"the tool"`
	ToolUseID string          `json:"tool_use_id" doc:"the model's id of the call"`
	ToolInput json.RawMessage `json:"tool_input" doc:"what the model gave it"`
}

// ToolResponse is what a tool call gave back.
type ToolResponse struct {
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

// Question is what a person is asked.
type Question struct {
	RequestID td.RequestID   `json:"request_id" doc:"the request"`
	Kind      td.RequestKind `json:"kind" doc:"conversation, permission, question or credential"`
	Prompt    string         `json:"prompt" doc:"the words shown"`
	Options   []string       `json:"options,omitempty" doc:"the answers offered"`
}

// PreContextAssemblyPayload is the payload of PreContextAssembly.
type PreContextAssemblyPayload struct {
	Head
	Tier     td.Tier `json:"tier" doc:"the class of model: small, worker or expert"`
	Model    string  `json:"model,omitempty" doc:"the model, if one was named; it goes over the tier"`
	MaxTurns int     `json:"max_turns" doc:"turns it may take before it is paused; as changed, in this iteration"`

	Prompt string   `json:"prompt" doc:"what was asked for; as changed, it is what the model is told"`
	Labels []string `json:"labels,omitempty" doc:"its labels, by which skills, learnings and notes are chosen"`
}

func (p PreContextAssemblyPayload) check() error {
	if !slices.Contains([]td.Tier{td.Small, td.Worker, td.Expert}, p.Tier) {
		return fmt.Errorf("tier %q is none of small, worker and expert", p.Tier)
	}
	if p.MaxTurns < 1 {
		return fmt.Errorf("max_turns is %d", p.MaxTurns)
	}
	if strings.TrimSpace(p.Prompt) == "" {
		return fmt.Errorf("prompt is empty")
	}
	return nil
}

// PostContextAssemblyPayload is the payload of PostContextAssembly.
type PostContextAssemblyPayload struct {
	Head
	System   string       `json:"system" doc:"the system prompt"`
	Messages []td.Message `json:"messages" doc:"one message: the opening, with role and blocks"`
	Tokens   int64        `json:"tokens" doc:"how large it all is, estimated"`
	Window   int64        `json:"window" doc:"how large it may be"`
	Hash     string       `json:"context_hash" doc:"the same for the same system prompt, tools and opening"`
}

func (p PostContextAssemblyPayload) check() error {
	if len(p.Messages) != 1 {
		return fmt.Errorf("%d messages, not the opening alone", len(p.Messages))
	}
	m := p.Messages[0]
	if err := checkMessage(m); err != nil {
		return fmt.Errorf("messages[0]: %w", err)
	}
	if m.Role != td.User || m.Text() == "" || slices.ContainsFunc(m.Blocks, func(b td.Block) bool { return b.Type != td.TextBlock }) {
		return fmt.Errorf("messages[0]: the opening is the user's, in words")
	}
	return nil
}

// PreLLMCallPayload is the payload of PreLLMCall.
type PreLLMCallPayload struct {
	Head
	Model     string  `json:"model" doc:"the model that is asked"`
	Tier      td.Tier `json:"tier" doc:"its class"`
	MaxTokens int     `json:"max_tokens" doc:"how long the answer may be"`
	Thinking  int     `json:"thinking" doc:"the budget for thinking, in tokens; 0: off"`

	Temperature json.Number `json:"temperature,omitempty" doc:"0 to 2; not set: the provider's own"`

	Messages int     `json:"messages" doc:"how many messages are sent"`
	Tokens   int64   `json:"tokens" doc:"how large the request is, estimated"`
	CostUSD  float64 `json:"cost_usd" doc:"what it costs at most, estimated, in US dollars; 0 if nobody knows the price"`
	Attempt  int     `json:"attempt" doc:"tries for this answer so far"`
	Hash     string  `json:"request_hash" doc:"the same for the same request"`
	Answer   string  `json:"answer,omitempty" doc:"set by a hook: the model's answer, and nothing is sent"`
}

func (p PreLLMCallPayload) check() error {
	switch {
	case p.Model == "":
		return fmt.Errorf("model is empty")
	case p.MaxTokens <= 0:
		return fmt.Errorf("max_tokens is %d", p.MaxTokens)
	case p.Thinking < 0 || p.Thinking >= p.MaxTokens:
		return fmt.Errorf("thinking is %d of %d max_tokens", p.Thinking, p.MaxTokens)
	}
	return td.CheckTemperature(p.Temperature)
}

// PostLLMCallPayload is the payload of PostLLMCall.
type PostLLMCallPayload struct {
	Head
	Model      string        `json:"model" doc:"the model that answered"`
	StopReason td.StopReason `json:"stop_reason" doc:"why it stopped"`
	Message    td.Message    `json:"message" doc:"the answer: role and blocks"`
	Usage      td.Usage      `json:"usage" doc:"tokens of this call: input, output, cache_read, cache_write"`
	CostUSD    float64       `json:"cost_usd" doc:"what it cost, in US dollars"`
	TookMS     int64         `json:"took_ms" doc:"how long it took, in milliseconds"`
	Hash       string        `json:"response_hash" doc:"the same for the same answer"`
	Learn      []string      `json:"learn,omitempty" doc:"set by a hook: what is worth keeping from it"`
}

func (p PostLLMCallPayload) check() error {
	if p.Message.Role != td.Assistant {
		return fmt.Errorf("message: role %q is not %q", p.Message.Role, td.Assistant)
	}
	if err := checkMessage(p.Message); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	return nil
}

// PreToolUsePayload is the payload of PreToolUse.
type PreToolUsePayload struct {
	Head
	ToolCall
	ToolResponse *ToolResponse `json:"tool_response,omitempty" doc:"set by a hook (content, is_error): the result, and the tool does not run"`
}

// PostToolUsePayload is the payload of PostToolUse.
type PostToolUsePayload struct {
	Head
	ToolCall
	ToolResponse ToolResponse `json:"tool_response" doc:"what the call gave back: content, is_error"`
	TookMS       int64        `json:"took_ms" doc:"how long it took, in milliseconds"`
	Learn        []string     `json:"learn,omitempty" doc:"set by a hook: what is worth keeping from it"`
}

// PreUserPromptPayload is the payload of PreUserPrompt.
type PreUserPromptPayload struct {
	Head
	Question
}

func (p PreUserPromptPayload) check() error {
	if strings.TrimSpace(p.Prompt) == "" {
		return fmt.Errorf("prompt is empty")
	}
	return nil
}

// PostUserInputPayload is the payload of PostUserInput.
type PostUserInputPayload struct {
	Head
	RequestID td.RequestID   `json:"request_id,omitempty" doc:"the request it answers, if any"`
	Kind      td.RequestKind `json:"kind" doc:"conversation, permission, question or credential"`
	Choice    string         `json:"choice,omitempty" doc:"the option that was chosen"`
	Message   string         `json:"message" doc:"what was said"`
	By        string         `json:"by,omitempty" doc:"who said it"`
}

// LoopIterationPayload is the payload of LoopIteration.
type LoopIterationPayload struct {
	Head
	StopReason td.StopReason `json:"stop_reason" doc:"why the model stopped"`
	Tools      []string      `json:"tools" doc:"the tools it called in this turn"`
	Failures   int           `json:"failures" doc:"tool calls that failed, one after the other, up to now"`
	Spent
}

func checkMessage(m td.Message) error {
	if m.Role != td.User && m.Role != td.Assistant {
		return fmt.Errorf("role %q is neither %q nor %q", m.Role, td.User, td.Assistant)
	}
	if len(m.Blocks) == 0 {
		return fmt.Errorf("it has no blocks")
	}
	for i, b := range m.Blocks {
		switch b.Type {
		case td.TextBlock, td.ThinkingBlock, td.RedactedThinkingBlock:
		case td.ToolUseBlock, td.ToolResultBlock:
			if b.ID == "" {
				return fmt.Errorf("blocks[%d]: a %s has no id", i, b.Type)
			}
		default:
			return fmt.Errorf("blocks[%d]: unknown type %q", i, b.Type)
		}
	}
	return nil
}

// Point is PreContextAssembly.
func (PreContextAssemblyPayload) Point() Point { return PreContextAssembly }

// Point is PostContextAssembly.
func (PostContextAssemblyPayload) Point() Point { return PostContextAssembly }

// Point is PreLLMCall.
func (PreLLMCallPayload) Point() Point { return PreLLMCall }

// Point is PostLLMCall.
func (PostLLMCallPayload) Point() Point { return PostLLMCall }

// Point is PreToolUse.
func (PreToolUsePayload) Point() Point { return PreToolUse }

// Point is PostToolUse.
func (PostToolUsePayload) Point() Point { return PostToolUse }

// Point is PreUserPrompt.
func (PreUserPromptPayload) Point() Point { return PreUserPrompt }

// Point is PostUserInput.
func (PostUserInputPayload) Point() Point { return PostUserInput }

// Point is LoopIteration.
func (LoopIterationPayload) Point() Point { return LoopIteration }
