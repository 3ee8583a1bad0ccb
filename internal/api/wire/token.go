package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"taskdaemon/internal/td"
)

// TokenPath is the file in a state folder that holds the token of the API over TCP.
func TokenPath(stateDir string) string { return filepath.Join(stateDir, "api.token") }

// The lengths of a token, in characters.
const (
	minToken = 32
	maxToken = 256
)

// ReadToken reads a token from a file that nobody but its owner can read. A missing one is NotFound.
func ReadToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", td.Errorf(td.NotFound, "there is no token in %s", path)
	}
	if err != nil {
		return "", td.Errorf(td.Refused, "read the token: %w", err)
	}
	defer f.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return "", td.Errorf(td.Storage, "look at %s: %w", path, err)
	}
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return "", td.Errorf(td.Refused, "%s is no file", path).WithHint("mv %s somewhere else", path)
	case int(st.Uid) != os.Geteuid():
		return "", td.Errorf(td.Refused, "%s belongs to another user", path)
	case st.Mode&0o077 != 0:
		return "", td.Errorf(td.Refused, "others may read %s", path).WithHint("rm %s, and restart the daemon: it makes a new token", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", td.Errorf(td.Storage, "read the token: %w", err)
	}
	token, err := ParseToken(string(raw))
	if err != nil {
		return "", td.Errorf(td.Invalid, "%s: %w", path, err).WithHint("rm %s, and restart the daemon: it makes a new token", path)
	}
	return token, nil
}

// ParseToken reads a token: letters, digits, dashes and underscores, and perhaps the end of a line.
func ParseToken(text string) (string, error) {
	token := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if len(token) < minToken || len(token) > maxToken {
		return "", td.Errorf(td.Invalid, "a token has %d to %d characters", minToken, maxToken)
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return "", td.Errorf(td.Invalid, "a token has letters, digits, dashes and underscores only")
		}
	}
	return token, nil
}

// Bearer is the header by which a client shows its token.
func Bearer(token string) string { return "Bearer " + token }

// CheckBearer fails unless the header shows the token. How long it takes does not depend on what is in the header.
func CheckBearer(header, token string) error {
	if header == "" {
		return td.Errorf(td.Auth, "no token was sent").WithHint("send it as Authorization: Bearer …; it is in api.token of the daemon's state folder")
	}
	given, want := sha256.Sum256([]byte(header)), sha256.Sum256([]byte(Bearer(token)))
	if token == "" || subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return td.Errorf(td.Auth, "the token is wrong").WithHint("it is in api.token of the daemon's state folder")
	}
	return nil
}
