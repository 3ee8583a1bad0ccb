package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// refusalMark begins the first line of an answer in which the daemon's proxy refuses.
var refusalMark = []byte("taskdaemon: ")

// mostRefusals is how many different refusals a command is told of.
const mostRefusals = 20

// refusals are what the proxy did not let a command do: programs rarely show it, and the model should know.
type refusals struct {
	mu   sync.Mutex
	said []string
}

func (r *refusals) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.said) < mostRefusals && !slices.Contains(r.said, line) {
		r.said = append(r.said, line)
	}
}

// take hands out what was said since the last time.
func (r *refusals) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	return said
}

// serve hands every connection on the island to the daemon's proxy. The daemon is called anew each time: it
// may be another one by then.
func (is *island) serve(socket string) {
	for {
		conn, err := is.proxy.Accept()
		if err != nil {
			return
		}
		go is.forward(conn, socket)
	}
}

func (is *island) forward(inside net.Conn, socket string) {
	defer inside.Close()
	outside, err := dialSocket(socket)
	if err != nil {
		is.refused.add("the daemon's proxy does not answer")
		_, _ = io.WriteString(inside, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthe daemon's proxy does not answer\n")
		return
	}
	defer outside.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(outside, inside)
		closeWrite(outside)
	})
	first := make([]byte, 1024)
	n, err := outside.Read(first)
	if line, ok := refusal(first[:n]); ok {
		is.refused.add(line)
	}
	if _, werr := inside.Write(first[:n]); err == nil && werr == nil {
		_, _ = io.Copy(inside, outside)
	}
	closeWrite(inside)
	wg.Wait()
}

// refusal finds the reason in the beginning of an answer.
func refusal(answer []byte) (string, bool) {
	line, _, _ := bytes.Cut(answer, []byte("\r\n"))
	const code = len("HTTP/1.1 403 ")
	if len(line) < code || !bytes.HasPrefix(line[code:], refusalMark) {
		return "", false
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(line[code+len(refusalMark):]), "")), " "), true
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// dialSocket reaches a unix socket whose path may be longer than an address can be.
func dialSocket(path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
