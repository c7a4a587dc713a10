package servertest

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Node is a node as the broker sees one: Node speaks the wire protocol, and the test chooses its
// answers.
type Node struct {
	pki.NodeIdentity
	Hostname string
	Trust    *pki.TrustBundle

	b      *Broker
	key    crypto.Signer
	client *http.Client
	more   []wire.Delivery // came together with a delivery that Next returned
}

// OnRecord makes sites of these names, unless they exist or the name is empty. The sites have no
// token, so that nobody asks their MAAS, which does not exist. No turnover begins by itself.
func (b *Broker) OnRecord(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if name == "" || b.Ask(t, b.Token, http.MethodGet, "/maas-sites/"+name, nil).Status == http.StatusOK {
			continue
		}
		Must[api.Site](t, b, http.MethodPost, "/maas-sites", map[string]any{
			"name": name, "region_code": name, "api_base_url": "http://" + name + ".invalid:5240/MAAS/",
			"pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
		})
		Must[api.SiteProfile](t, b, http.MethodPatch, "/maas-sites/"+name+"/profiles/default", map[string]any{"turnover_automatic": false})
	}
}

// NewNode creates a node record and enrols the node, and creates its site's record if needed. The
// node is enrolling; its first request makes the broker ask for the baseline (see Settle). Without
// facts it reports none.
func (b *Broker) NewNode(t testing.TB, c api.NodeCreate, facts ...*taskcatalog.Facts) *Node {
	t.Helper()
	b.OnRecord(t, c.Site)
	boot := Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", c)
	return b.EnrollMachine(t, boot.Token, c.Hostname, "", facts...)
}

// Enroll enrols with a token, over a connection with a pinned root, as a machine does.
func (b *Broker) Enroll(t testing.TB, token, hostname string) *Node {
	t.Helper()
	return b.EnrollMachine(t, token, hostname, "")
}

// H100s are the facts of a machine with n H100 GPUs, whose agent does not look for disks.
func H100s(n int) *taskcatalog.Facts {
	f := &taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}}
	memory := uint64(85520809984)
	for i := range n {
		f.GPUs = append(f.GPUs, taskcatalog.GPUFacts{
			Vendor: "nvidia", Index: i, UUID: fmt.Sprintf("GPU-%08x", i), Serial: fmt.Sprintf("16400%05d", i),
			PCIAddress: fmt.Sprintf("0000:%02x:00.0", 0x1b+i), Name: "NVIDIA H100 80GB HBM3", MemoryBytes: &memory,
		})
	}
	return f
}

// EnrollMachine is Enroll for a machine that knows its MAAS system id. Without facts the machine
// has eight H100.
func (b *Broker) EnrollMachine(t testing.TB, token, hostname, systemID string, facts ...*taskcatalog.Facts) *Node {
	t.Helper()
	var hardware *taskcatalog.Facts
	switch {
	case len(facts) > 0:
		hardware = facts[0]
	case systemID != "":
		hardware = H100s(8)
	}
	can := map[string]string{taskcatalog.CapabilityOperationForm: strconv.Itoa(taskcatalog.OperationForm)}
	if hardware != nil {
		maps.Copy(can, hardware.Keys)
	}
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Hostname: hostname, b: b}
	n.client = &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedConfig(b.RootSHA256(), "127.0.0.1", b.Now)}}
	var reply wire.EnrollReply
	n.must(t, http.MethodPost, "/internal/v1/nodes/enroll", wire.EnrollRequest{
		Token: token, CSR: string(csr), AgentVersion: "test", TaskTypes: taskcatalog.IDs(),
		Capabilities: can, Hostname: hostname, MAASSystemID: systemID, Facts: hardware, Now: b.Now(),
	}, &reply)
	n.NodeIdentity = pki.NodeIdentity{NodeID: reply.NodeID, Epoch: reply.NodeEpoch}
	if n.Trust, err = pki.FirstBundle([]byte(reply.TrustBundle), b.Now()); err != nil {
		t.Fatal(err)
	}
	n.adopt(t, key, reply.Certificate)
	return n
}

// At is the same node towards another replica, with connections of its own.
func (n *Node) At(t testing.TB, b *Broker) *Node {
	t.Helper()
	there := *n
	there.b = b
	transport := &http.Transport{TLSClientConfig: n.TLS()}
	there.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return &there
}

// adopt makes the node use a key that the broker has certified.
func (n *Node) adopt(t testing.TB, key crypto.Signer, chain string) (leaf *x509.Certificate) {
	t.Helper()
	cert := tls.Certificate{PrivateKey: key}
	for rest := []byte(chain); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block != nil {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		} else {
			t.Fatal("the certificate is no PEM")
		}
	}
	var err error
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	n.client.CloseIdleConnections()
	n.key, n.client = key, &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(n.Trust.Roots(n.b.Now()), &cert,
		n.b.Now)}}
	t.Cleanup(n.client.CloseIdleConnections)
	return cert.Leaf
}
