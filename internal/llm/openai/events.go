package openai

import "encoding/json"

// chunk has the fields of a stream's events that this package reads.
type chunk struct {
	Model   words           `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index  int    `json:"index"`
	Finish string `json:"finish_reason"`
	Delta  struct {
		Content string     `json:"content"`
		Refusal string     `json:"refusal"`
		Calls   []callPart `json:"tool_calls"`
		// What a model thinks aloud goes by two names, and where by both, says the same.
		ReasoningContent words `json:"reasoning_content"`
		Reasoning        words `json:"reasoning"`
	} `json:"delta"`
}

// callPart is a piece of a tool call.
type callPart struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a string, by the protocol
	} `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"` // with those read from and written to the cache
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// words is a string the answer does not depend on: anything else in its place is passed over.
type words string

// UnmarshalJSON takes strings.
func (w *words) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*w = words(s)
	}
	return nil
}
