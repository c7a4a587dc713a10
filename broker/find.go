package broker

import (
	"encoding/hex"
	"net"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Word is what a person writes to find something, in each form in which it may be stored.
type Word struct {
	Text     string // without surrounding blanks
	Lower    string
	Hostname string // empty: no hostname
	Site     string // of site/hostname
	IP       string // empty: no IP address
	MAC      string // with colons, in lower case; empty: no MAC address
	UUID     string // with dashes, in lower case; empty: no UUID
	Serial   string // of a certificate: hexadecimal, in lower case; empty: none
}

var (
	bareMAC  = lazyregexp.New(`^[0-9a-f]{12}$`)
	uuidForm = lazyregexp.New(`^(?:gpu-)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$`)
)

// ParseWord reads a word of any kind. A MAC address may have colons, dashes, dots or nothing between
// its digits, a UUID dashes or nothing, with or without the GPU- of NVIDIA.
func ParseWord(text string) Word {
	text = strings.TrimSpace(text)
	w := Word{Text: text, Lower: strings.ToLower(text)}
	name := text
	if site, rest, qualified := strings.Cut(text, "/"); qualified {
		w.Site, name = site, rest
	}
	if hostname, ok := CanonicalHostname(name); ok {
		w.Hostname = hostname
	}
	if ip, err := ParseIP(text); err == nil {
		w.IP = ip.Unmap().String()
	}
	if mac, err := net.ParseMAC(text); err == nil && len(mac) == 6 {
		w.MAC = mac.String()
	} else if bareMAC.MatchString(w.Lower) {
		raw, _ := hex.DecodeString(w.Lower) // the form says that it is hexadecimal
		w.MAC = net.HardwareAddr(raw).String()
	}
	if m := uuidForm.FindStringSubmatch(w.Lower); m != nil {
		w.UUID = strings.Join(m[1:], "-")
	}
	if bytes, err := hex.DecodeString(strings.ReplaceAll(w.Lower, ":", "")); err == nil {
		w.Serial = hex.EncodeToString(bytes)
	}
	return w
}

// FoundKind is a kind of thing that a word finds.
type FoundKind string

// The kinds, in the order of an answer.
const (
	FoundNode              FoundKind = "node"
	FoundDevice            FoundKind = "device"
	FoundAllocation        FoundKind = "allocation"         // a tenant's user on a node
	FoundProjectAllocation FoundKind = "project_allocation" // what a project asked for and holds
	FoundRun               FoundKind = "run"
	FoundTask              FoundKind = "task"
	FoundCertificate       FoundKind = "certificate"      // of a turnover
	FoundNodeCertificate   FoundKind = "node_certificate" // identifies a node to the brokers
	FoundAttestation       FoundKind = "attestation"
	FoundTerminal          FoundKind = "terminal"
	FoundOrganisation      FoundKind = "organisation"
	FoundProject           FoundKind = "project"
	FoundReservation       FoundKind = "reservation"
	FoundWebhook           FoundKind = "webhook"
)

// Found is one thing that a word found.
type Found struct {
	Kind     FoundKind
	ID       string
	By       string // the property that matched, such as serial or pxe_mac
	What     string // a device's model, a task's type, a run's kind, an allocation's tenant, a reservation's project
	Status   string
	NodeID   string // empty: a thing without a node
	Hostname string
	Site     string
}
