package frame

import (
	"encoding/json"

	"github.com/hostler/hostler/taskcatalog"
)

// Version is the version of the protocol.
const Version = 1

// Hello begins every connection. The node's session process shows the token minted for its task, or
// the token of its last Welcome. The operator's side shows its ticket.
type Hello struct {
	Version   int    `json:"version"`
	SessionID string `json:"session_id"`
	Token     string `json:"token"` // valid for one connection
	// Taken is the position up to which this side has the other side's bytes. From is the position
	// of the first byte that this side can still send, and Sent the position up to which it has
	// sent.
	Taken uint64 `json:"taken"`
	From  uint64 `json:"from"`
	Sent  uint64 `json:"sent"`
}

// Welcome answers a Hello that is admitted.
type Welcome struct {
	Version int    `json:"version"`
	Taken   uint64 `json:"taken"` // the relay has this side's bytes up to here
	Limit   uint64 `json:"limit"` // more bytes may be sent up to here
	From    uint64 `json:"from"`  // position of the next byte of the other side; earlier bytes are no longer available
	// Token is for this side's next connection, should this connection break. Until Token is used,
	// the token of the answered Hello becomes valid again, because this Welcome may be lost.
	Token string `json:"token"`
	// Repeats permits sending small unacknowledged frames again as datagrams.
	Repeats bool `json:"repeats"`
}

// State tells the operator the node's state and transport. Only the relay sends State: with the
// Welcome, and at each change.
type State struct {
	Node      string `json:"node"`      // here or away
	Transport string `json:"transport"` // quic or tcp; empty while the node is away
}

// Values of a State.
const (
	NodeHere = "here"
	NodeAway = "away"
	OverQUIC = "quic"
	OverTCP  = "tcp"
)

var states = map[State]bool{{NodeHere, OverQUIC}: true, {NodeHere, OverTCP}: true, {NodeAway, ""}: true}

// Bye ends the connection and says whether its side may reconnect. For an operator who was replaced
// by another (connection_replaced) Lasts is false, although the session lasts.
type Bye struct {
	Code   taskcatalog.Code `json:"code"`
	Text   string           `json:"text"`
	Lasts  bool             `json:"lasts"`            // the side may reconnect
	Status *int32           `json:"status,omitempty"` // exit status, if the program has ended
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
		return to // text and numbers can always be encoded
	}
	return append(to, raw...)
}
