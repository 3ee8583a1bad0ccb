package jsonl

import (
	"bytes"
	"os"
	"testing"
)

// The examples of the documentation are what the code writes.
func TestDocumentedLines(t *testing.T) {
	page, err := os.ReadFile("../../docs/graph.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]byte
	for i, part := range bytes.Split(page, []byte("```")) {
		if block, ok := bytes.CutPrefix(part, []byte("json\n")); ok && i%2 == 1 {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of JSON", len(blocks))
	}
	changes, compact := blocks[0], blocks[1]
	if merged := Merge(changes); !bytes.Equal(merged, changes) {
		t.Errorf("the changes are written as\n%s", merged)
	}
	newest := bytes.LastIndexByte(bytes.TrimSpace(changes), '\n') + 1
	last, err := Decode(changes[newest:])
	if err != nil {
		t.Fatal(err)
	}
	if got := Compact(changes, last.Op.Time()); !bytes.Equal(got, append(bytes.Clone(compact), changes[newest:]...)) {
		t.Errorf("all but the last are compacted to\n%s", got)
	}
}
