package script

import (
	"debug/elf"
	"path/filepath"
	"testing"
)

// TestSize holds what a person downloads below 50 MB: the sections that stay when symbols and debugging tables are left out. What makes it jump
// is a call of a method by a name that only the running program knows, as text/template does it: the linker then keeps every
// method of every type there is.
func TestSize(t *testing.T) {
	f, err := elf.Open(filepath.Join(binDir, "taskdaemon"))
	if err != nil {
		t.Skip("the program is no ELF file on this system: ", err)
	}
	defer func() { _ = f.Close() }()
	var size uint64
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			size += s.FileSize
		}
	}
	const limit = 50_000_000
	t.Logf("%.1f MB, %.2f of the limit", float64(size)/1e6, float64(size)/limit)
	if size > limit {
		t.Errorf("the program has %.1f MB without its symbols, more than %.0f: who calls methods by name? go build -ldflags=-dumpdep, and look for ReflectMethod",
			float64(size)/1e6, limit/1e6)
	}
}
