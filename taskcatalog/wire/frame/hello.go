package frame

import (
	"encoding/json"

	"github.com/hostler/hostler/taskcatalog"
)

// Version is that of the protocol.
const Version = 1

// Hello begins every connection: of the node's session process, which shows the token that
// was minted for its task or the one that its last Welcome gave it, and of the operator's
// side, which shows its ticket.
type Hello struct {
	Version   int    `json:"version"`
	SessionID string `json:"session_id"`
	Token     string `json:"token"` // good for one connection
	// Taken is up to where this side has the other's bytes already; From and Sent are where
	// its own begin that it can still send, and up to where it has sent.
	Taken uint64 `json:"taken"`
	From  uint64 `json:"from"`
	Sent  uint64 `json:"sent"`
}

// Welcome answers a Hello that is let in.
type Welcome struct {
	Version int    `json:"version"`
	Taken   uint64 `json:"taken"` // up to where the relay has this side's bytes
	Limit   uint64 `json:"limit"` // up to where more may be sent
	From    uint64 `json:"from"`  // where the other side's bytes begin that come now: none before are to be had
	// Token is for the next connection of this side, should this one break. Until it is used
	// the one that this answers is good again, should this be lost.
	Token string `json:"token"`
	// Repeats: small frames may be sent again as datagrams before they are acknowledged.
	Repeats bool `json:"repeats"`
}

// State tells the operator where the node is, and over what it is connected. Only the relay
// sends it: with the Welcome, and whenever it changes.
type State struct {
	Node      string `json:"node"`      // here or away
	Transport string `json:"transport"` // quic or tcp; empty while the node is away
}

// What a State says.
const (
	NodeHere = "here"
	NodeAway = "away"
	OverQUIC = "quic"
	OverTCP  = "tcp"
)

var states = map[State]bool{{NodeHere, OverQUIC}: true, {NodeHere, OverTCP}: true, {NodeAway, ""}: true}

// Bye ends the connection, and says whether its side may come again. To an operator whose
// place another took (connection_replaced) it does not last, though the session does.
type Bye struct {
	Code   taskcatalog.Code `json:"code"`
	Text   string           `json:"text"`
	Lasts  bool             `json:"lasts"`            // connect again
	Status *int32           `json:"status,omitempty"` // of the program, where it has ended
}

// Kind implements Frame.
func (Hello) Kind() Kind   { return KindHello }
func (Welcome) Kind() Kind { return KindWelcome }
func (Bye) Kind() Kind     { return KindBye }
func (State) Kind() Kind   { return KindState }

func (f Hello) payload(to []byte) []byte   { return encode(to, f) }
func (f Welcome) payload(to []byte) []byte { return encode(to, f) }
func (f Bye) payload(to []byte) []byte     { return encode(to, f) }
func (f State) payload(to []byte) []byte   { return encode(to, f) }

func encode(to []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return to // text and numbers: it has nothing that JSON does not
	}
	return append(to, raw...)
}
