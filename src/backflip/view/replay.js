// The player: reads the scene of this page, builds it with three.js, and moves it through time.
"use strict";

const data = JSON.parse(document.getElementById("scene").textContent);
const by_id = (id) => document.getElementById(id);
const unpack = (text) =>
  new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const times = unpack(data.times); // (T,) [s]
const p_WB = unpack(data.p_WB); // (n, T, 3) [m]
const q_WB = unpack(data.q_WB); // (n, T, 4), x y z w
const path = unpack(data.path); // (T, 3) [m] what the camera follows
const T = times.length;
const duration = times[T - 1];
const centre = new THREE.Vector3(...data.centre);
const radius = Math.max(Math.hypot(...data.half), 1e-3); // [m] of the whole motion
const size = Math.max(Math.hypot(...data.robot), 1e-3); // [m] of the robot
const SKY = "#eef2f6";

// ---- stage: renderer, light, camera ------------------------------------------------------------

THREE.ColorManagement.legacyMode = false; // hex colours are sRGB, light adds up linearly
const renderer = new THREE.WebGLRenderer({ antialias: true });
renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
renderer.outputEncoding = THREE.sRGBEncoding;
renderer.shadowMap.enabled = true;
renderer.shadowMap.type = THREE.PCFSoftShadowMap;
document.body.prepend(renderer.domElement);

const stage = new THREE.Scene();
stage.background = new THREE.Color(SKY);
stage.fog = new THREE.Fog(SKY);

const sun = new THREE.DirectionalLight("#ffffff", 0.85);
sun.castShadow = true;
sun.shadow.mapSize.set(2048, 2048);
sun.shadow.radius = 4;
stage.add(sun, sun.target, new THREE.HemisphereLight("#ffffff", "#a9b4c0", 0.6));

const camera = new THREE.PerspectiveCamera(40, 1, 0.02 * size, 80 * radius);
const controls = new THREE.TrackballControls(camera, renderer.domElement);
Object.assign(controls, { rotateSpeed: 2.2, zoomSpeed: 1.2, panSpeed: 0.5, dynamicDampingFactor: 0.25 });
Object.assign(controls, { minDistance: 0.1 * size, maxDistance: 20 * radius });

// light and haze for what is in view: a ball about `middle`, of radius `reach`
function light(middle, reach) {
  sun.target.position.copy(middle);
  sun.position.set(1.4, -1.0, 2.4).multiplyScalar(reach).add(middle);
  sun.shadow.normalBias = 0.004 * reach;
  const box = { left: -1.6, right: 1.6, top: 1.6, bottom: -1.6, near: 0.1, far: 8 };
  for (const side in box) sun.shadow.camera[side] = box[side] * reach;
  sun.shadow.camera.updateProjectionMatrix();
  Object.assign(stage.fog, { near: 9 * reach, far: 30 * reach });
}

// from where all corners of a box are in the part of the window that is free
function distance_for(half, z) {
  const x = new THREE.Vector3(0, 0, 1).cross(z).normalize();
  const y = z.clone().cross(x);
  const { innerWidth: width, innerHeight: height } = window;
  const per_pixel = Math.tan((camera.fov * Math.PI) / 360) / (height / 2);
  const high = Math.max(height / 2 - 90, 50) * per_pixel;
  const wide = Math.max((width - beside()) / 2 - 20, 50) * per_pixel;
  let distance = 0;
  for (let i = 0; i < 8; i++) {
    const corner = new THREE.Vector3(...half.map((edge, k) => ((i >> k) & 1 ? edge : -edge)));
    const apart = Math.max(Math.abs(corner.dot(x)) / wide, Math.abs(corner.dot(y)) / high);
    distance = Math.max(distance, corner.dot(z) + apart);
  }
  return distance;
}

// look from `direction` at the robot if it is followed, else at everything
function aim(direction) {
  const close = by_id("follow").checked;
  const middle = close ? middle_at(now) : centre;
  const distance = 1.15 * distance_for(close ? data.robot : data.half, direction.clone().normalize());
  controls.target.copy(middle);
  camera.position.copy(direction).setLength(distance).add(middle);
  light(middle, close ? size : radius);
  keep_upright();
}

function go_home() {
  by_id("follow").checked = data.follow;
  aim(new THREE.Vector3(0.5, -1, 0.42));
}

// the trackball rolls freely; z stays up and the camera off the poles
function keep_upright() {
  const eye = camera.position.clone().sub(controls.target);
  const ball = new THREE.Spherical().setFromVector3(new THREE.Vector3(eye.y, eye.z, eye.x));
  ball.phi = Math.min(Math.max(ball.phi, 0.05), 0.94 * Math.PI);
  const kept = new THREE.Vector3().setFromSpherical(ball);
  camera.up.set(0, 0, 1);
  camera.position.set(kept.z, kept.x, kept.y).add(controls.target);
  camera.lookAt(controls.target);
}

// ---- actors: parts on bodies, paths, ground ----------------------------------------------------

function solid({ kind, size: [a, b, c], surface }) {
  if (kind === "sphere") return new THREE.SphereGeometry(a, 48, 32);
  if (kind === "box") return new THREE.BoxGeometry(a, b, c);
  if (kind === "cylinder") return new THREE.CylinderGeometry(a, a, b, 64).rotateX(Math.PI / 2);
  if (kind === "surface") {
    const corners = new THREE.BufferAttribute(new Float32Array(surface), 3);
    const mesh = new THREE.BufferGeometry().setAttribute("position", corners);
    mesh.computeVertexNormals(); // no corner is shared: faces stay flat
    return mesh;
  }
  return new THREE.CapsuleGeometry(a, b, 16, 40).rotateX(Math.PI / 2); // three.js has it along y
}

// two-tone, so that a turning ball is seen to turn
function skin(two_tone, colour) {
  if (!two_tone) return { color: colour };
  const canvas = Object.assign(document.createElement("canvas"), { width: 256, height: 128 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 256, 128);
  pen.fillStyle = "rgb(255 255 255 / 30%)";
  for (let i = 0; i < 4; i++) for (let j = 0; j < 2; j++) pen.fillRect(64 * i + 32 * j, 64 * j, 32, 64);
  return { map: Object.assign(new THREE.CanvasTexture(canvas), { encoding: THREE.sRGBEncoding }) };
}

function add_part(part, parent) {
  const material = new THREE.MeshStandardMaterial({ roughness: 0.55, metalness: 0.05, ...skin(part.two_tone, part.colour) });
  const mesh = new THREE.Mesh(solid(part), material);
  mesh.castShadow = mesh.receiveShadow = true;
  mesh.position.fromArray(part.p_CS);
  mesh.quaternion.fromArray(part.q_BS);
  parent.add(mesh);
}

function add_plane(part, parent) {
  const tile = data.tile;
  const count = 2 * Math.ceil((30 * radius) / tile);
  const canvas = Object.assign(document.createElement("canvas"), { width: 128, height: 128 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = part.colour;
  pen.fillRect(0, 0, 128, 128);
  pen.fillStyle = "rgb(255 255 255 / 45%)";
  pen.fillRect(0, 0, 64, 64);
  pen.fillRect(64, 64, 64, 64);
  const map = new THREE.CanvasTexture(canvas);
  map.wrapS = map.wrapT = THREE.RepeatWrapping;
  map.repeat.set(count, count);
  map.anisotropy = renderer.capabilities.getMaxAnisotropy();
  map.encoding = THREE.sRGBEncoding;
  const material = new THREE.MeshStandardMaterial({ map, roughness: 1 });
  const mesh = new THREE.Mesh(new THREE.PlaneGeometry(2 * tile * count, 2 * tile * count), material);
  mesh.receiveShadow = true;
  mesh.quaternion.fromArray(part.q_BS);
  // the square lies under the motion, moved by whole tiles so that lines still mark the origin
  const p_CS = new THREE.Vector3().fromArray(part.p_CS);
  const under = centre.clone().sub(p_CS).applyQuaternion(mesh.quaternion.clone().invert());
  under.set(2 * tile * Math.round(under.x / (2 * tile)), 2 * tile * Math.round(under.y / (2 * tile)), 0);
  mesh.position.copy(under.applyQuaternion(mesh.quaternion)).add(p_CS);
  parent.add(mesh);
}

const paths = new THREE.Group();
const bodies = [];
const clip_tracks = [];
for (let b = 0; b < data.bodies; b++) {
  const p = p_WB.subarray(3 * T * b, 3 * T * (b + 1));
  const q = q_WB.subarray(4 * T * b, 4 * T * (b + 1));
  const body = new THREE.Group();
  body.name = `body${b}`;
  body.position.fromArray(p);
  body.quaternion.fromArray(q);
  bodies.push(body);
  clip_tracks.push(new THREE.VectorKeyframeTrack(`${body.name}.position`, times, p));
  clip_tracks.push(new THREE.QuaternionKeyframeTrack(`${body.name}.quaternion`, times, q));
  const line = new THREE.BufferGeometry().setAttribute("position", new THREE.BufferAttribute(p, 3));
  const ink = new THREE.LineBasicMaterial({ color: data.colours[b], transparent: true, opacity: 0.65 });
  paths.add(new THREE.Line(line, ink));
}
const troupe = new THREE.Group();
troupe.add(...bodies);
stage.add(troupe, paths);
for (const part of data.parts) {
  const parent = part.body < 0 ? stage : bodies[part.body];
  (part.kind === "plane" ? add_plane : add_part)(part, parent);
}

// ---- arrows: contact forces --------------------------------------------------------------------

const arrows = new THREE.Group();
const force = data.forces && { f: unpack(data.forces.arrows), p: unpack(data.forces.points) }; // (T, k, 3) [m]
const HEAD = 0.11 * size; // [m]
for (let k = 0; k < (data.forces?.count ?? 0); k++) {
  // over everything: most of an arrow would be inside the foot it pushes
  const above = { depthTest: false, transparent: true };
  const ink = new THREE.MeshStandardMaterial({ color: data.forces.colour, roughness: 0.6, ...above });
  const shaft = new THREE.Mesh(new THREE.CylinderGeometry(0.1 * HEAD, 0.1 * HEAD, 1, 16).translate(0, 0.5, 0), ink);
  const head = new THREE.Mesh(new THREE.ConeGeometry(0.28 * HEAD, HEAD, 24).translate(0, -HEAD / 2, 0), ink);
  arrows.add(new THREE.Group().add(shaft, head));
}
stage.add(arrows);

// forces are means since the picture before: they hold until the next one
function point_arrows(i) {
  arrows.children.forEach((arrow, k) => {
    const at = 3 * (i * arrows.children.length + k);
    const f = new THREE.Vector3().fromArray(force.f, at);
    const length = f.length();
    arrow.visible = length > 0.2 * HEAD;
    if (!arrow.visible) return;
    const [shaft, head] = arrow.children;
    arrow.position.fromArray(force.p, at);
    arrow.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), f.divideScalar(length));
    head.scale.setScalar(Math.min(1, length / (1.5 * HEAD))); // a short arrow is mostly head
    head.position.y = length;
    shaft.scale.y = length - 0.9 * HEAD * head.scale.y;
  });
}

// ---- time: three.js interpolates between pictures ----------------------------------------------

const mixer = new THREE.AnimationMixer(troupe);
const action = mixer.clipAction(new THREE.AnimationClip("replay", duration, clip_tracks));
action.setLoop(THREE.LoopOnce);
action.clampWhenFinished = true;
action.play();

let now = 0; // [s] in the replay
let playing = duration > 0;
let seen = performance.now(); // [ms] wall clock of the last picture
const followed = new THREE.Vector3();

// first picture at or after a time [s]
function picture_at(time) {
  const i = times.findIndex((t) => t >= time - 1e-6);
  return i < 0 ? T - 1 : i;
}

function middle_at(time) {
  const i = picture_at(time);
  const before = Math.max(i - 1, 0);
  const part = i > before ? (time - times[before]) / (times[i] - times[before]) : 0;
  const from = new THREE.Vector3().fromArray(path, 3 * before);
  return from.lerp(new THREE.Vector3().fromArray(path, 3 * i), part);
}

function show(time) {
  now = Math.min(Math.max(time, 0), duration);
  action.paused = false;
  mixer.setTime(now);
  if (force) point_arrows(picture_at(now));
  by_id("time").value = now;
  by_id("clock").textContent = `${now.toFixed(2)} / ${duration.toFixed(2)} s`;
}

function set_playing(value) {
  if (value && now >= duration) now = 0;
  playing = value && duration > 0;
  by_id("play").textContent = playing ? "❚❚" : "▶";
}

function follow() {
  const middle = middle_at(now);
  if (by_id("follow").checked) {
    const moved = middle.clone().sub(followed);
    for (const point of [controls.target, camera.position, sun.position, sun.target.position]) point.add(moved);
  }
  followed.copy(middle);
}

function draw(wall) {
  const passed = Math.max(wall - seen, 0) / 1000;
  seen = wall;
  if (playing) {
    show(now + passed * Number(by_id("speed").value));
    if (now >= duration) set_playing(false);
  }
  follow();
  controls.update();
  keep_upright();
  renderer.render(stage, camera);
  requestAnimationFrame(draw);
}

// ---- hands -------------------------------------------------------------------------------------

// [px] what the learning curve takes of the window's width
function beside() {
  return by_id("panel").hidden ? 0 : by_id("panel").offsetWidth + 20;
}

function resize() {
  const { innerWidth: width, innerHeight: height } = window;
  camera.aspect = width / height;
  // with the curve beside it the picture's middle moves left
  camera.setViewOffset(width, height, beside() / 2, 0, width, height);
  renderer.setSize(width, height);
  controls.handleResize();
}

function step_pictures(count) {
  set_playing(false);
  show(times[Math.min(Math.max(picture_at(now) + count, 0), T - 1)]);
}

by_id("time").max = duration;
by_id("time").addEventListener("input", (event) => { set_playing(false); show(Number(event.target.value)); });
by_id("play").addEventListener("click", () => set_playing(!playing));
by_id("trace").addEventListener("change", (event) => { paths.visible = event.target.checked; });
by_id("forces").addEventListener("change", (event) => { arrows.visible = event.target.checked; });
by_id("curve").addEventListener("change", (event) => { by_id("panel").hidden = !event.target.checked; resize(); });
by_id("follow").addEventListener("change", () => aim(camera.position.clone().sub(controls.target)));
by_id("home").addEventListener("click", go_home);
window.addEventListener("resize", resize);
window.addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT") return;
  const hands = { " ": () => set_playing(!playing), ArrowLeft: () => step_pictures(-1), ArrowRight: () => step_pictures(1) };
  if (hands[event.key]) { event.preventDefault(); hands[event.key](); }
});

const facts = [`${data.bodies} ${data.bodies === 1 ? "body" : "bodies"}`, `${duration.toFixed(2)} s`];
if (data.parts.some((part) => part.kind === "plane")) facts.push(`tiles of ${+data.tile.toPrecision(3)} m`);
if (data.forces) facts.push(`arrows: ${data.forces.scale}`);
by_id("facts").textContent = facts.join(" · ");
by_id("forces").parentElement.hidden = !data.forces;
by_id("curve").parentElement.hidden = !data.curve;
by_id("panel").hidden = !data.curve;
if (data.curve) plot_curve(by_id("panel"), data.curve);
by_id("trace").checked = paths.visible = data.bodies <= 4; // of many bodies they are a tangle
resize();
followed.copy(middle_at(now));
go_home();
set_playing(playing);
show(0);
requestAnimationFrame(draw);
