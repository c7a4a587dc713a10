// Package handover passes a relay and a token from the agent to the process of a terminal session,
// over a unix socket: at the session's start and whenever the session must go to another relay. Ask
// is the agent's end, Socket the session's.
//
// # Invariants
//
//   - The socket's directory and the directory above it can be changed by root alone, and
//     both ends ask the kernel for the other end's user (SO_PEERCRED) before a byte of a
//     message is written or read. Another user gets no answer.
//   - A connection carries a single request and a single answer, strict JSON of bounded
//     length, within a bounded time. Connections are served one after the other.
//   - A request without a handover only asks: it changes nothing, and its answer says
//     whether the handover of a task was taken. An interrupted agent can thus report the
//     true outcome.
//   - No part of a request is logged here.
package handover
