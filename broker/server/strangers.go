package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/strangers"
)

// The limits on what clients may hold at a listener before they show a token or a node's
// certificate, and on what one name may hold afterwards. docs/reference/adversaries.md has
// the figures and their sums.
var (
	operatorConnections = strangers.Limits{Source: 64, All: 512, Named: 256, Settle: time.Second / 4}
	operatorRequests    = strangers.Limits{Source: 32, All: 256, Settle: time.Second / 4}
	// A rack boots at once behind one address: each machine enrols, and fetches a package.
	agentConnections = strangers.Limits{Source: 256, All: 2048, Named: 64, Settle: time.Second / 4}
)

// overHTTP2 bounds a connection of the operators' listener.
var overHTTP2 = http.HTTP2Config{
	MaxConcurrentStreams:          100,
	MaxReceiveBufferPerConnection: 256 << 10, // of bodies that no handler has read
	MaxReceiveBufferPerStream:     256 << 10,
	SendPingTimeout:               30 * time.Second,
	PingTimeout:                   15 * time.Second,
	WriteByteTimeout:              15 * time.Second,
}

// rooms are the rooms of the listeners. The known addresses of operators and of nodes are kept
// apart.
type rooms struct {
	operators, requests, agents *strangers.Room
	nodes                       *strangers.Known // shared with the relay
}

func newRooms() rooms {
	operators, nodes := strangers.NewKnown(), strangers.NewKnown()
	return rooms{
		operators: strangers.NewRoom(operatorConnections, operators),
		requests:  strangers.NewRoom(operatorRequests, operators),
		agents:    strangers.NewRoom(agentConnections, nodes),
		nodes:     nodes,
	}
}

// showsToken says that the guard will check a token of the request.
func showsToken(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" && strings.HasPrefix(r.URL.Path, api.TenantPrefix+"/")
}
