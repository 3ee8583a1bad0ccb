package sandbox

import (
	"io"
	"net"
	"sync"
)

// serve hands every connection on the island to the daemon's proxy. The daemon is called anew each time: it
// may be another one by then.
func (is *island) serve(socket string) {
	for {
		conn, err := is.proxy.Accept()
		if err != nil {
			return
		}
		go forward(conn, socket)
	}
}

func forward(inside net.Conn, socket string) {
	defer inside.Close()
	outside, err := net.Dial("unix", socket)
	if err != nil {
		_, _ = io.WriteString(inside, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthe daemon's proxy does not answer\n")
		return
	}
	defer outside.Close()
	var wg sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	wg.Go(func() { pipe(outside, inside) })
	pipe(inside, outside)
	wg.Wait()
}
