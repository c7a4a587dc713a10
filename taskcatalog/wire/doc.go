// Package wire is the agent API's requests and replies: architecture chapter
// 4. Both sides use these types and nothing else; bodies are read by Decode.
package wire
