package rehearsal_test

import (
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
)

func TestConformance(t *testing.T) {
	llmtest.Run(t, func(_ *testing.T, script *rehearsal.Script) llm.Model {
		return rehearsal.New(rehearsal.Options{Default: script})
	})
}
