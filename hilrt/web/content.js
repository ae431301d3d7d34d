// What differs of a part's content is put in, and nothing else is touched: a Div of Bokeh's that
// changes in anything is made anew with its style sheets, ten times a second. What stays the same is
// not laid out again, stays selected, and is not read out again by a screen reader.
const follow = (shown, wanted) => {
  for (const {name, value} of wanted.attributes)
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value)
  for (const {name} of [...shown.attributes])
    if (!wanted.hasAttribute(name)) shown.removeAttribute(name)
  followChildren(shown, wanted)
}
const followChildren = (shown, wanted) => {
  const children = [...wanted.childNodes]
  while (shown.childNodes.length > children.length) shown.lastChild.remove()
  children.forEach((child, i) => {
    const there = shown.childNodes[i]
    if (there?.nodeName !== child.nodeName) there ? there.replaceWith(child) : shown.append(child)
    else if (child.nodeType === Node.ELEMENT_NODE) follow(there, child)
    else if (there.data !== child.data) there.data = child.data
  })
}
for (const part of parts) {
  const view = Bokeh.index.find_one(part)
  if (view?.markup_el == null) continue
  const wanted = document.createElement("template")
  let shown = part.text
  view.rerender = () => {
    if (part.text === shown) return
    shown = wanted.innerHTML = part.text
    followChildren(view.markup_el, wanted.content)
  }
}
