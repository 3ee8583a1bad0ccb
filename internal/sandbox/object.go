package sandbox

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// errNoObject says that a file is not the object that its name says.
var errNoObject = errors.New("it is not what its name says")

// Bounds of an object: of its content, of the content of one that is no file's, and of what stands before that, its kind and size.
const (
	maxObject = 4 << 30
	maxParsed = 64 << 20
	maxHeader = 32
)

// checkObject reads a single object as git stores it, and fails unless it is the one of that name, whole, with nothing behind it, and of the form that git demands. It
// returns how many bytes it read.
func checkObject(from io.Reader, name string) (int64, error) {
	_, _, n, err := parseObject(from, name)
	return n, err
}

// parseObject is checkObject that returns what the object is, too, and its content unless it is a file's.
func parseObject(from io.Reader, name string) (kind string, body []byte, n int64, err error) {
	counted := &counter{r: from}
	if kind, body, err = readObject(bufio.NewReaderSize(counted, 32<<10), name); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok || errors.Is(err, errEnough) || errors.Is(err, errTooLarge) {
			return "", nil, counted.n, err // not the object's fault, or none that it was taken for
		}
		return "", nil, counted.n, fmt.Errorf("%s: %w", name, errors.Join(errNoObject, err))
	}
	return kind, body, counted.n, nil
}

var errTooLarge = errors.New("an object of git is larger than 4 GiB")

func readObject(read *bufio.Reader, name string) (kind string, content []byte, err error) {
	sum := newHash(len(name))
	plain, err := zlib.NewReader(read)
	if err != nil {
		return "", nil, err
	}
	inflated := bufio.NewReader(io.TeeReader(plain, sum))
	kind, size, err := readHeader(inflated)
	if err != nil {
		return "", nil, err
	}
	var body bytes.Buffer
	to := io.Writer(&body)
	switch {
	case size > maxObject:
		return "", nil, errTooLarge
	case kind == "blob":
		to = io.Discard
	case size > maxParsed:
		return "", nil, errors.New("it is too large for its kind")
	}
	switch n, err := io.Copy(to, io.LimitReader(inflated, size+1)); {
	case err != nil:
		return "", nil, err
	case n != size:
		return "", nil, io.ErrUnexpectedEOF
	case hex.EncodeToString(sum.Sum(nil)) != name:
		return "", nil, errors.New("its content has another name")
	}
	if _, err := read.ReadByte(); !errors.Is(err, io.EOF) {
		return "", nil, errors.Join(errors.New("there is more behind it"), err)
	}
	return kind, body.Bytes(), wellFormed(kind, body.Bytes(), len(name))
}

// newHash is what makes names of so many digits.
func newHash(digits int) hash.Hash {
	if digits == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	return sha1.New()
}

// readHeader reads what stands before the content.
func readHeader(content *bufio.Reader) (kind string, size int64, err error) {
	var header []byte
	for {
		b, err := content.ReadByte()
		switch {
		case err != nil:
			return "", 0, err
		case len(header) == maxHeader:
			return "", 0, errors.New("its header has no end")
		}
		if b == 0 {
			break
		}
		header = append(header, b)
	}
	kind, digits, _ := strings.Cut(string(header), " ")
	size, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || strconv.FormatInt(size, 10) != digits || size < 0 {
		return "", 0, fmt.Errorf("its header says %q", header)
	}
	if !slices.Contains([]string{"blob", "tree", "commit", "tag"}, kind) {
		return "", 0, fmt.Errorf("no object is a %q", kind)
	}
	return kind, size, nil
}

// isHex reports whether a text is so many digits of a name.
func isHex(text string, n int) bool {
	return len(text) == n && strings.Trim(text, "0123456789abcdef") == ""
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
