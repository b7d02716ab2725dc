// Asks an edge for pages by quic-go's client of HTTP/3: `quic-go HOST:PORT CERTIFICATE`.
package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"
)

func check(ok bool, what string, got ...any) {
	if !ok {
		fmt.Println("quic-go:", what, got)
		os.Exit(1)
	}
}

func ask(client *http.Client, url string) (int, []byte, string) {
	answer, err := client.Get(url)
	check(err == nil, url, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(err == nil, url, err)
	return answer.StatusCode, body, answer.Proto
}

func main() {
	site := "https://" + os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	check(err == nil, "certificate", err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.Close()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}

	status, body, proto := ask(client, site+"/own")
	check(status == 200 && string(body) == "HTTP/3.0 TLSv1.3" && proto == "HTTP/3.0", "a page of the edge", status, proto, string(body))
	status, body, _ = ask(client, site+"/path?query")
	check(status == 200 && string(body) == "/path?query", "a page of the server", status, string(body))

	large := make([]byte, 3_000_000)
	rand.Read(large)
	for _, known := range []bool{true, false} {
		var reader io.Reader = bytes.NewReader(large)
		path := "/"
		if !known {
			// A body of unknown length, which the server behind cannot take: the edge's own answer.
			reader, path = io.LimitReader(reader, 100_000), "/own"
		}
		answer, err := client.Post(site+path, "application/octet-stream", reader)
		check(err == nil, "a large request", err)
		body, err = io.ReadAll(answer.Body)
		answer.Body.Close()
		check(err == nil && answer.StatusCode == 200, "a large request", err, answer.StatusCode)
		check(!known || string(body) == fmt.Sprintf("%x", sha256.Sum256(large)), "a large request", string(body))
	}

	var all sync.WaitGroup
	for number := range 80 {
		all.Add(1)
		go func() {
			defer all.Done()
			path := fmt.Sprintf("/%d", number)
			if number%20 == 0 {
				path = "/big"
			}
			status, body, _ := ask(client, site+path)
			check(status == 200 && (string(body) == path || len(body) == 3_000_000), "many at a time", status, len(body))
		}()
	}
	all.Wait()
	fmt.Println("quic-go: pages, bodies both ways, 80 at a time")
}
