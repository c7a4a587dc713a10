//go:build ignore

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve serves the file that the argument names.
func serve() error {
	if len(os.Args) != 2 {
		return errors.New("usage: objectstores FILE")
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	s3 := s3mem.New()
	if err := s3.CreateBucket("models"); err != nil {
		return err
	}
	if _, err := s3.PutObject("models", "w.bin", map[string]string{}, bytes.NewReader(raw), int64(len(raw)), nil); err != nil {
		return err
	}
	gcs, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, PublicHost: "storage.googleapis.com",
		InitialObjects: []fakestorage.Object{{ObjectAttrs: fakestorage.ObjectAttrs{BucketName: "models", Name: "w.bin"}, Content: raw}},
	})
	if err != nil {
		return err
	}
	for name, handler := range map[string]http.Handler{"s3": gofakes3.New(s3).Server(), "gcs": gcs.HTTPHandler()} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() { _ = http.Serve(l, handler) }()
		fmt.Println(name, l.Addr())
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
