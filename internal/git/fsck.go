package git

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// provenFile stands beside git's own files in a repository and lists the packs whose objects were all proven, each with what its bytes hash to. Packs are never
// changed: as long as they hash to that, their objects are what they were. Whoever loses the file has everything proven again.
const provenFile = "taskdaemon-proven"

// Fsck proves every object and ref. A repository that does not hold together is Corrupt. Objects in packs that were proven before, and whose files are the same
// byte for byte, are not unpacked again: only that they are connected is looked at.
func (r *Repo) Fsck(ctx context.Context) error {
	packs, err := sealed(ctx, r.path) // before they are proven: what changes afterwards is noticed the next time
	if err != nil {
		return err
	}
	proven, err := readProven(r.path)
	if err != nil {
		return err
	}
	checks := [][]string{{"fsck", "--full", "--strict", "--no-dangling", "--no-progress"}}
	if len(proven) > 0 {
		checks = [][]string{
			{"fsck", "--no-full", "--strict", "--no-dangling", "--no-progress"}, // objects outside of packs
			{"fsck", "--connectivity-only", "--no-dangling", "--no-progress"},
		}
		for pack, sum := range packs {
			if proven[pack] != sum {
				checks = append(checks, []string{"verify-pack", "--", filepath.Join("objects", "pack", pack+".idx")})
			}
		}
	}
	for _, args := range checks {
		if _, err := r.run(ctx, false, args...); err != nil {
			if td.KindOf(err) == td.Internal {
				return &td.Error{Kind: td.Corrupt, Hint: "taskdaemon doctor", Err: err}
			}
			return err
		}
	}
	_ = writeProven(r.path, packs) // else all of it is proven again
	return nil
}

// sealed are the packs of a repository by name, with what each hashes to together with its index.
func sealed(ctx context.Context, dir string) (map[string]string, error) {
	at := filepath.Join(dir, "objects", "pack")
	names, err := filepath.Glob(filepath.Join(at, "pack-*.pack"))
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		pack := strings.TrimSuffix(filepath.Base(name), ".pack")
		h := sha256.New()
		var err error
		for _, end := range []string{".pack", ".idx"} {
			if err = hashFile(h, filepath.Join(at, pack+end)); err != nil {
				break
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was packed into another meanwhile; or git says what is missing
		}
		if err != nil {
			return nil, td.Errorf(td.Storage, "read a pack of conversations: %w", err)
		}
		out[pack] = hex.EncodeToString(h.Sum(nil))
	}
	return out, nil
}

func hashFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// mostProven bounds how much of the file is read.
const mostProven = 1 << 20

func readProven(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, provenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read which packs were proven: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostProven))
	if err != nil {
		return nil, td.Errorf(td.Storage, "read which packs were proven: %w", err)
	}
	return parseProven(raw), nil
}

// parseProven reads the list. Its last line is what the others hash to: one that was cut off or changed proves nothing.
func parseProven(raw []byte) map[string]string {
	end := bytes.LastIndexByte(bytes.TrimSuffix(raw, []byte("\n")), '\n') + 1
	sum := sha256.Sum256(raw[:end])
	if strings.TrimSpace(string(raw[end:])) != hex.EncodeToString(sum[:]) {
		return nil
	}
	out := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(raw[:end])); lines.Scan(); {
		if pack, sum, ok := strings.Cut(lines.Text(), " "); ok {
			out[pack] = sum
		}
	}
	return out
}

// writeProven replaces the list whole.
func writeProven(dir string, packs map[string]string) error {
	var list bytes.Buffer
	for pack, sum := range packs {
		list.WriteString(pack + " " + sum + "\n")
	}
	sum := sha256.Sum256(list.Bytes())
	list.WriteString(hex.EncodeToString(sum[:]) + "\n")
	path := filepath.Join(dir, provenFile)
	err := os.WriteFile(path+".new", list.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}
