// Package saved keeps a plan in a file until it is applied.
//
// The file holds the question and not the answer: what was read, what is declared, what was asked for, and as whom.
// [Decode] lets [diff.Compare] answer it again, and compares the sum of the answer with the one in the file. So a file
// can hold nothing that Compare would not plan, and a property that a plan gets later needs no code here.
//
// Only the version that wrote a file reads it: another one may make another plan.
//
// # What is not guaranteed
//
// The sums find damage, not forgery: a person who can write the file chooses the question, and so what is applied. To show a file
// is to show what an apply of it does.
//
// # Secrets
//
// A file holds access lists and our identities with the hashes of their digests, because an apply needs them; it
// should be readable only by its owner (0600). It holds no passwords, and of a sensitive output only the name.
package saved
