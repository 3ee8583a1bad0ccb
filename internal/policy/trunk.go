package policy

// Trunk is the name of the rules about a person's branch: whether it may follow work whose commits lack what their own commits go
// through, hooks and a signature.
const Trunk = "Trunk"
