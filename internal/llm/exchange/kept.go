package exchange

import (
	"slices"
	"sync"

	"taskdaemon/internal/llm"
)

// mostKept is how many encodings a Kept holds: a daemon has a few models and a few sets of tools.
const mostKept = 16

// Kept holds the encodings that were asked for last. The calls of a thousand loops begin with the same tools and
// mostly with the same system prompt: those are encoded once and held in memory once, however many calls are
// under way. The zero value is ready; it is safe for concurrent use.
type Kept[K comparable] struct {
	mu     sync.Mutex
	newest []kept[K] // first
}

type kept[K comparable] struct {
	key     K
	encoded []byte
}

// Of is what encode makes of what the key names. Nobody may write to it.
func (k *Kept[K]) Of(key K, encode func() ([]byte, error)) ([]byte, error) {
	if encoded := k.find(key); encoded != nil {
		return encoded, nil
	}
	encoded, err := encode()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.newest) == mostKept {
		k.newest = k.newest[:mostKept-1]
	}
	k.newest = slices.Insert(k.newest, 0, kept[K]{key, encoded})
	return encoded, nil
}

func (k *Kept[K]) find(key K) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.newest, func(e kept[K]) bool { return e.key == key })
	if i < 0 {
		return nil
	}
	found := k.newest[i]
	copy(k.newest[1:i+1], k.newest[:i])
	k.newest[0] = found
	return found.encoded
}

// Toolset names a slice of tools: the very same one, which nobody changes, and not only one that is equal.
type Toolset struct {
	first *llm.Tool
	n     int
}

// ToolsetOf names the tools of a request.
func ToolsetOf(tools []llm.Tool) Toolset {
	if len(tools) == 0 {
		return Toolset{}
	}
	return Toolset{first: &tools[0], n: len(tools)}
}
