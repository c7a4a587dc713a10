package secretstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
)

// WantCode fails the test unless err is a *broker.Error of that code.
func WantCode(t testing.TB, err error, code string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
}

// Run checks the promises of secrets.Keeper on k, which must be empty.
func Run(t *testing.T, k secrets.Keeper) {
	t.Run("ASecretIsReadAsItIsNow", func(t *testing.T) { readAsItIsNow(t, k) })
	t.Run("ValuesComeBack", func(t *testing.T) { valuesComeBack(t, k) })
	t.Run("ValuesThatCannotComeBackAreRefused", func(t *testing.T) { valuesRefused(t, k) })
	t.Run("PathsAreOnlyNames", func(t *testing.T) { pathsAreOnlyNames(t, k) })
	t.Run("APathIsNoDirectory", func(t *testing.T) { pathIsNoDirectory(t, k) })
	t.Run("AValueIsReadWhole", func(t *testing.T) { readWhole(t, k) })
	t.Run("OfManyWhoMakeASecretOneIsHeard", func(t *testing.T) { madeOnce(t, k) })
}

func put(t *testing.T, k secrets.Keeper, path, value string) {
	t.Helper()
	if err := k.Put(t.Context(), path, []byte(value)); err != nil {
		t.Fatalf("put %s: %v", path, err)
	}
}

func want(t *testing.T, k secrets.Keeper, path, value string) {
	t.Helper()
	got, err := k.Get(t.Context(), path)
	if err != nil || string(got) != value {
		t.Fatalf("got %.80q, %v; want %.80q at %s", got, err, value, path)
	}
}

func gone(t *testing.T, k secrets.Keeper, path string) {
	t.Helper()
	_, err := k.Get(t.Context(), path)
	WantCode(t, err, "secret_not_found")
	if secrets.Unreachable(err) {
		t.Error("a secret that is not there reads as a keeper that cannot be reached")
	}
}

func readAsItIsNow(t *testing.T, k secrets.Keeper) {
	gone(t, k, "now/a")
	for _, value := range []string{"first", "second", "third"} {
		put(t, k, "now/a", value)
		want(t, k, "now/a", value)
	}
	for range 2 {
		if err := k.Delete(t.Context(), "now/a"); err != nil {
			t.Fatal(err)
		}
		gone(t, k, "now/a")
	}
	put(t, k, "now/a", "fourth")
	want(t, k, "now/a", "fourth")
}

func valuesComeBack(t *testing.T, k secrets.Keeper) {
	for name, value := range map[string]string{
		"token":        "consumer:token:secret",
		"lines":        "one\ntwo\r\n",
		"spaces":       "  x\t ",
		"quotes":       `"quoted" \ and </script>&'`,
		"beyond-ascii": "pässwörd\u2028\U0001F511",
		"controls":     "\x00\x01\x7f",
		"brace":        "{not json",
		"half":         `{"a":1} and more`,
		"digits":       "12345678901234567890",
		"null":         "null",
		"list":         `[{"a": 1}]`,
		"string":       `"x"`,
		"named-twice":  `{"a":"1","a":"2"}`,
		"no-members":   ` {} `,
		"null-member":  `{"a":null}`,
		"number":       `{"value":1}`,
		"nested":       `{"z":{"b":[1,true,null,"x"],"a":{}},"n":12345678901234567890.5}`,
		"largest":      strings.Repeat("x", 64<<10),
		"largest-more": strings.Repeat("\x01", 64<<10),
	} {
		put(t, k, "values/"+name, value)
		want(t, k, "values/"+name, value)
	}
	// The layout of a document may change, its content may not.
	for name, value := range map[string]string{
		"api-token": `{"token":"consumer:token:secret"}`,
		"power":     ` { "user" : "root", "pass": "p<&>\u0000\"" } `,
		"values":    `{"value":"x","other":""}`,
	} {
		put(t, k, "documents/"+name, value)
		got, err := k.Get(t.Context(), "documents/"+name)
		if err != nil || !reflect.DeepEqual(parse(t, got), parse(t, []byte(value))) {
			t.Errorf("got %s, %v; want what %s says", got, err, value)
		}
	}
}

func parse(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func valuesRefused(t *testing.T, k secrets.Keeper) {
	put(t, k, "refused/a", "old")
	for name, value := range map[string]string{
		"empty":                   "",
		"too large":               strings.Repeat("planted", 10<<10),
		"no text":                 "planted\xff",
		"as plain text is stored": `{"value": "planted"}`,
	} {
		err := k.Put(t.Context(), "refused/a", []byte(value))
		WantCode(t, err, "secret_value_invalid")
		if strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: the error holds the value: %v", name, err)
		}
	}
	want(t, k, "refused/a", "old")
}

func pathsAreOnlyNames(t *testing.T, k secrets.Keeper) {
	for _, p := range []string{
		"", "/", "/etc/x", "..", "../x", "a/../b", "a/./b", "a//b", "a/", ".hidden", "a/.new-x", "A", "a b", "a\x00b", "a\nb",
		"a%2fb", "a/%2e%2e/b", "..%2fx", "%2e%2e", "a%00", "a?version=1", "a#b", "a;b", `a\b`, `..\x`, "a:b", "a@b", "a*", "a+b", "a,b",
		"a\r\nX-Vault-Token: x", "http://x/y", "a/..;/b", "\u00e4", "a\u2024/b", "a\uff0fb",
		"a.age/b", "x.age", strings.Repeat("a", 201), "a/b/c/d/e/f/g/h/i",
	} {
		WantCode(t, k.Put(t.Context(), p, []byte("v")), "secret_path_invalid")
		_, err := k.Get(t.Context(), p)
		WantCode(t, err, "secret_path_invalid")
		WantCode(t, k.Delete(t.Context(), p), "secret_path_invalid")
	}
}

func pathIsNoDirectory(t *testing.T, k secrets.Keeper) {
	put(t, k, "tree/a", "outer")
	put(t, k, "tree/a/b", "inner")
	if err := k.Delete(t.Context(), "tree/a"); err != nil {
		t.Fatal(err)
	}
	gone(t, k, "tree/a")
	want(t, k, "tree/a/b", "inner")
	gone(t, k, "tree")
}

func readWhole(t *testing.T, k secrets.Keeper) {
	value := func(writer int) string { return strings.Repeat(fmt.Sprintf("%d", writer), 5000) }
	put(t, k, "whole/a", value(0))
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for range 5 {
				if err := k.Put(t.Context(), "whole/a", []byte(value(writer))); err != nil {
					t.Error(err)
				}
				got, err := k.Get(t.Context(), "whole/a")
				if err != nil || len(got) != 5000 || string(got) != strings.Repeat(string(got[:1]), 5000) {
					t.Errorf("got %d bytes of a mixture, %v", len(got), err)
				}
			}
		})
	}
	group.Wait()
}

func madeOnce(t *testing.T, k secrets.Keeper) {
	for round := range 10 {
		path := fmt.Sprint("made/once/", round)
		got := make(chan string, 8)
		for i := range cap(got) {
			go func() {
				value, err := k.Ensure(t.Context(), path, fmt.Append(nil, "value of ", i))
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				got <- string(value)
			}()
		}
		first := <-got
		for range cap(got) - 1 {
			if other := <-got; other != first {
				t.Errorf("at %s one was given %q, and another %q", path, first, other)
			}
		}
		want(t, k, path, first)
	}
	put(t, k, "made/once/0", "rotated")
	if value, err := k.Ensure(t.Context(), "made/once/0", []byte("another")); err != nil || string(value) != "rotated" {
		t.Errorf("what was there came back as %q, %v", value, err)
	}
	if err := k.Delete(t.Context(), "made/once/0"); err != nil {
		t.Fatal(err)
	}
	if value, err := k.Ensure(t.Context(), "made/once/0", []byte("another")); err != nil || string(value) != "another" {
		t.Errorf("what was not there came back as %q, %v", value, err)
	}
	_, err := k.Ensure(t.Context(), "made/once/x", nil)
	WantCode(t, err, "secret_value_invalid")
	_, err = k.Ensure(t.Context(), "../x", []byte("x"))
	WantCode(t, err, "secret_path_invalid")
}
