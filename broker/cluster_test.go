package broker_test

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

// aCA is a certificate in PEM.
func aCA(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestAnInvalidClusterIsRefused(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 128)
	good := broker.Cluster{Name: "lab", Backend: "slurm", URL: "https://slurm.example:6820", Controller: "ctl.example:6817", JoinAuth: "munge"}
	if err := good.Check("ey.token", key); err != nil {
		t.Fatal(err)
	}
	if err := (broker.Cluster{Name: "lab", Backend: "slurm", URL: "https://[fd00::1]:6820"}).Check("ey.token", nil); err != nil {
		t.Error(err)
	}
	k8s := broker.Cluster{Name: "lab", Backend: "k8s", URL: "https://api.example:6443", Controller: "api.example:6443", JoinAuth: "bootstrap-token", CACert: aCA(t)}
	if err := k8s.Check("ey.token", nil); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(c *broker.Cluster, token *string, key *[]byte){
		"k8s without its CA":        func(c *broker.Cluster, _ *string, k *[]byte) { *c, *k = k8s, nil; c.CACert = "" },
		"k8s with a stored key":     func(c *broker.Cluster, _ *string, _ *[]byte) { *c = k8s },
		"k8s without a controller":  func(c *broker.Cluster, _ *string, k *[]byte) { *c, *k = k8s, nil; c.Controller = "" },
		"k8s that joins as Slurm":   func(c *broker.Cluster, _ *string, k *[]byte) { *c, *k = k8s, nil; c.JoinAuth = "munge" },
		"k8s without a way to join": func(c *broker.Cluster, _ *string, k *[]byte) { *c, *k = k8s, nil; c.JoinAuth = "" },
		"Slurm that joins as k8s":   func(c *broker.Cluster, _ *string, _ *[]byte) { c.JoinAuth = "bootstrap-token" },
		"a path as name":            func(c *broker.Cluster, _ *string, _ *[]byte) { c.Name = "../sites" },
		"another backend":           func(c *broker.Cluster, _ *string, _ *[]byte) { c.Backend = "lsf" },
		"no TLS":                    func(c *broker.Cluster, _ *string, _ *[]byte) { c.URL = "http://slurm.example" },
		"a URL with a path":         func(c *broker.Cluster, _ *string, _ *[]byte) { c.URL = "https://slurm.example/slurm" },
		"a URL with a user":         func(c *broker.Cluster, _ *string, _ *[]byte) { c.URL = "https://u:p@slurm.example" },
		"a CA that is none":         func(c *broker.Cluster, _ *string, _ *[]byte) { c.CACert = "Injected" },
		"no controller":             func(c *broker.Cluster, _ *string, _ *[]byte) { c.Controller = "" },
		"a controller with more":    func(c *broker.Cluster, _ *string, _ *[]byte) { c.Controller = "ctl:6817 --Injected" },
		"a port that is none":       func(c *broker.Cluster, _ *string, _ *[]byte) { c.Controller = "ctl:70000" },
		"another way to join":       func(c *broker.Cluster, _ *string, _ *[]byte) { c.JoinAuth = "none" },
		"no way to join":            func(c *broker.Cluster, _ *string, _ *[]byte) { c.JoinAuth = "" },
		"a short key":               func(_ *broker.Cluster, _ *string, k *[]byte) { *k = (*k)[:31] },
		"a long key":                func(_ *broker.Cluster, _ *string, k *[]byte) { *k = bytes.Repeat(*k, 9) },
		"no key":                    func(_ *broker.Cluster, _ *string, k *[]byte) { *k = nil },
		"no token":                  func(_ *broker.Cluster, token *string, _ *[]byte) { *token = "" },
		"a token of two lines":      func(_ *broker.Cluster, token *string, _ *[]byte) { *token = "a\nInjected: b" },
		"Ray's way to join":         func(c *broker.Cluster, _ *string, _ *[]byte) { c.JoinAuth = "token" },
	} {
		c, token, secret := good, "ey.token", key
		change(&c, &token, &secret)
		if err := c.Check(token, secret); err == nil || broker.AsError(err).Code != "cluster_invalid" || strings.Contains(err.Error(), "Injected") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nodes of Ray read the first line of the token's file, and cut blanks.
func TestATokenOfRayIsOneLine(t *testing.T) {
	c := broker.Cluster{Name: "lab", Backend: "ray", URL: "https://ray.example", Controller: "head.example:6379", JoinAuth: "token"}
	const token = "planted-token-of-a-cluster-32-ok"
	for secret, fine := range map[string]bool{
		token: true, strings.Repeat("t", 1024): true, token[:31]: false, strings.Repeat("t", 1025): false,
		token + "\n": false, " " + token: false, token + "\x00": false, token + "é": false,
	} {
		err := c.Check("t", []byte(secret))
		if (err == nil) != fine || err != nil && (broker.AsError(err).Code != "cluster_invalid" || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%q: %v", secret, err)
		}
	}
	c.JoinAuth = "munge"
	if err := c.Check("t", []byte(token)); err == nil {
		t.Error("a node of Ray joins with munge")
	}
}
