package exchange

import (
	"crypto/sha256"
	"encoding/hex"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// Named is a tool or a call as an API takes its name: letters, digits, _ and -, at most so many of them. What another provider, or a
// model that makes names up, called otherwise gets a name that follows from its own, so that a call and its result still agree and
// the bytes of a conversation stay the same.
func Named(name string, most int) string {
	if fits(name, most) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "x_" + hex.EncodeToString(sum[:12])
}

func fits(name string, most int) bool {
	if name == "" || len(name) > most {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// IDs are those of the tool calls in a conversation. Some servers count from zero in every answer; a conversation must have
// each id once.
func IDs(conversation []td.Message) map[string]bool {
	used := map[string]bool{}
	for _, m := range conversation {
		for _, b := range m.Blocks {
			if b.Type == td.ToolUseBlock {
				used[b.ID] = true
			}
		}
	}
	return used
}

// Renew gives the calls of an answer another id where the conversation, or the answer itself, has theirs already.
func Renew(r *llm.Response, conversation []td.Message, id func() string) {
	if len(r.Message.ToolUses()) == 0 {
		return
	}
	used := IDs(conversation)
	for i := range r.Message.Blocks {
		b := &r.Message.Blocks[i]
		if b.Type != td.ToolUseBlock {
			continue
		}
		if !Word(b.ID) || used[b.ID] {
			b.ID = id()
		}
		used[b.ID] = true
	}
}
