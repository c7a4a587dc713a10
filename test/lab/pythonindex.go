package lab

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// PythonIndex is a package index as PEP 503 describes it, below /simple. It has the wheels that were added.
type PythonIndex struct {
	mu    sync.Mutex
	files map[string][]byte // by path
	asked []string
}

// Add adds a wheel with one module, and returns the wheel's digest.
func (x *PythonIndex) Add(name, version, code string) (digest string, err error) {
	raw, err := wheel(name, version, code)
	if err != nil {
		return "", err
	}
	file := fmt.Sprintf("/files/%s-%s-py3-none-any.whl", name, version)
	sum := fmt.Sprintf("%x", sha256.Sum256(raw))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.files == nil {
		x.files = map[string][]byte{}
	}
	x.files[file] = raw
	page := "/simple/" + name + "/"
	x.files[page] = append(x.files[page], fmt.Sprintf("<a href=\"%s#sha256=%s\">%s</a>\n", file, sum, name)...)
	return "sha256:" + sum, nil
}

// Asked are the paths of the requests so far.
func (x *PythonIndex) Asked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string{}, x.asked...)
}

// ServeHTTP implements http.Handler.
func (x *PythonIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	x.asked = append(x.asked, r.URL.Path)
	content, known := x.files[r.URL.Path]
	x.mu.Unlock()
	if !known {
		http.NotFound(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/") {
		w.Header().Set("Content-Type", "text/html")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// wheel makes a wheel of pure Python, with the list of its files.
func wheel(name, version, code string) ([]byte, error) {
	var raw bytes.Buffer
	z, record := zip.NewWriter(&raw), ""
	info := name + "-" + version + ".dist-info/"
	for _, f := range [][2]string{
		{name + ".py", code},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		sum := sha256.Sum256([]byte(f[1]))
		if f[1] == "" {
			f[1] = record + f[0] + ",,\n"
		} else {
			record += fmt.Sprintf("%s,sha256=%s,%d\n", f[0], base64.RawURLEncoding.EncodeToString(sum[:]), len(f[1]))
		}
		w, err := z.Create(f[0])
		if err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return raw.Bytes(), err
}
