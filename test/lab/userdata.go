package lab

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"strings"
)

var enrollToken = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

// EnrollToken finds the enrol token in a machine's user-data, whole or in one of its
// parts; empty: there is none.
func EnrollToken(userData []byte) string {
	for _, part := range append([][]byte{userData}, parts(userData)...) {
		if token := enrollToken.Find(part); token != nil {
			return string(token)
		}
	}
	return ""
}

// parts are those of a MIME multipart, decoded.
func parts(userData []byte) (all [][]byte) {
	message, err := mail.ReadMessage(bytes.NewReader(userData))
	if err != nil {
		return nil
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil
	}
	for r := multipart.NewReader(message.Body, params["boundary"]); ; {
		p, err := r.NextPart() // quoted-printable is decoded by it
		if err != nil {
			return all
		}
		body := io.Reader(p)
		if strings.EqualFold(p.Header.Get("Content-Transfer-Encoding"), "base64") {
			body = base64.NewDecoder(base64.StdEncoding, body)
		}
		text, _ := io.ReadAll(body)
		all = append(all, text)
	}
}
