package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"unique"
	"weak"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// beginning is what a conversation begins with as other runs have it, too. It is most of what a run holds while the
// model answers, and the same for almost all of them.
type beginning struct {
	of     *td.ContextSet
	system unique.Handle[string]
	kit    *kit
}

// common lets the conversation begin with bytes that runs have in common, wherever they begin alike.
func (e *Engine) common(set *td.ContextSet) (beginning, error) {
	k, err := e.kits.of(set.Tools)
	if err != nil {
		return beginning{}, fmt.Errorf("read the recorded tools: %w", err)
	}
	b := beginning{of: set, system: unique.Make(set.System), kit: k}
	set.System, set.Tools = b.system.Value(), k.raw
	return b, nil
}

// kit is a set of tools as it was recorded, and decoded. Nobody changes it.
type kit struct {
	raw   json.RawMessage
	tools []llm.Tool
}

// kits are those that runs use now: each is there once, and goes with the last run that uses it.
type kits struct {
	seed maphash.Seed
	mu   sync.Mutex
	used map[uint64]weak.Pointer[kit]
}

func newKits() *kits { return &kits{seed: maphash.MakeSeed(), used: map[uint64]weak.Pointer[kit]{}} }

func (k *kits) of(raw json.RawMessage) (*kit, error) {
	sum := maphash.Bytes(k.seed, raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	if had := k.used[sum].Value(); had != nil && bytes.Equal(had.raw, raw) {
		return had, nil
	}
	made := &kit{raw: raw}
	if err := json.Unmarshal(raw, &made.tools); err != nil {
		return nil, err
	}
	w := weak.Make(made)
	k.used[sum] = w
	runtime.AddCleanup(made, func(sum uint64) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.used[sum] == w { // and not one that was made since
			delete(k.used, sum)
		}
	}, sum)
	return made, nil
}
