package clientfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

func rootPEM(t *testing.T) string {
	t.Helper()
	return string(pki.MarshalCerts(pkitest.New(t).Root()))
}

func codeOf(t *testing.T, err error) string {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want one with a code", err)
	}
	return e.Code
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "client.yaml")
	want := File{Broker: "https://127.0.0.1:7440", CA: rootPEM(t), TokenFile: "admin.token"}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want.TokenFile = filepath.Join(dir, "admin.token")
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left, want 1", len(left))
	}
}

func TestABadClientFileIsRefused(t *testing.T) {
	ca := "ca: |\n  " + strings.ReplaceAll(strings.TrimSpace(rootPEM(t)), "\n", "\n  ") + "\n"
	for name, text := range map[string]string{
		"empty":          "",
		"not yaml":       "\x00\x01",
		"unknown field":  "broker: https://b:1\ntoken: hsx\n" + ca,
		"plain http":     "broker: http://b:1\n" + ca,
		"no host":        "broker: https://\n" + ca,
		"a path":         "broker: https://b:1/x\n" + ca,
		"a password":     "broker: https://u:p@b:1\n" + ca,
		"no root":        "broker: https://b:1\n",
		"a damaged root": "broker: https://b:1\nca: x\n",
		"two ways in":    "broker: https://b:1\ntoken_file: a\nsign_in_file: b\n" + ca,
		"stdin":          "broker: https://b:1\ntoken_file: \"-\"\n" + ca,
		"too large":      "broker: https://b:1\n" + ca + strings.Repeat("#", maxFile),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "client.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(path)
			if got := codeOf(t, err); got != "config_invalid" {
				t.Errorf("code %s, want config_invalid", got)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if got := codeOf(t, err); got != "config_not_found" {
		t.Errorf("code %s, want config_not_found", got)
	}
}

func TestATokenFileThatOthersMayReadIsRefused(t *testing.T) {
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "token_file_open", 0o604: "token_file_open", 0o644: "token_file_open"} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte("hso_abc\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		token, err := ReadToken(path, nil)
		switch {
		case want == "" && (err != nil || token != "hso_abc"):
			t.Errorf("mode %04o: got %q, %v", mode, token, err)
		case want != "" && codeOf(t, err) != want:
			t.Errorf("mode %04o: %v, want %s", mode, err, want)
		}
	}
}

func TestATokenIsOneLineOfPrintableCharacters(t *testing.T) {
	for text, good := range map[string]bool{
		"hso_abc": true, " hso_abc\n": true, "": false, "a\nb": false, "a b": false, "a\x1b[31m": false, "ä": false, strings.Repeat("x", 5000): false,
	} {
		_, err := ReadToken("-", strings.NewReader(text))
		if (err == nil) != good {
			t.Errorf("%.20q: %v", text, err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
}

func TestASecretFromStdinIsReadWholeOrNotAtAll(t *testing.T) {
	if got, err := ReadSecret("-", strings.NewReader(strings.Repeat("x", maxFile))); err != nil || len(got) != maxFile {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := ReadSecret("-", strings.NewReader(strings.Repeat("x", maxFile+1))); broker.AsError(err).Code != "token_file_unreadable" {
		t.Errorf("got %v", err)
	}
}

func TestASignInIsReadBackOrRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dc1.sign-in")
	want := SignIn{ClientID: "hostler", TokenEndpoint: "https://id.example/token", IDToken: "a.b.c", RefreshToken: "r"}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	got, failed := ReadSignIn(path)
	if err != nil || failed != nil || info.Mode().Perm() != 0o600 || got.IDToken != want.IDToken || got.RefreshToken != want.RefreshToken {
		t.Errorf("%v, %+v, %v, %v", info.Mode(), got, err, failed)
	}
	for text, code := range map[string]string{"": "sign_in_malformed", "{}": "sign_in_malformed", `{"id_token": "secret", "x`: "sign_in_malformed"} {
		if err := WritePrivate(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSignIn(path); codeOf(t, err) != code || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
